package plugin

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"testing"
)

// BoringSSL cannot verify P-521; the libraries of Go and Debian can, and would hide a mistake.
func TestCertificatesAreP256(t *testing.T) {
	var client bytes.Buffer
	if err := WriteClientCert(&client); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(client.Bytes(), client.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	config, server, err := serverTLS(client.String())
	if err != nil {
		t.Fatal(err)
	}
	if config.MinVersion != tls.VersionTLS13 || config.ClientAuth != tls.RequireAndVerifyClientCert {
		t.Errorf("TLS version %x, client authentication %v", config.MinVersion, config.ClientAuth)
	}
	for name, der := range map[string][]byte{"client": pair.Certificate[0], "server": server} {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		key, ok := cert.PublicKey.(*ecdsa.PublicKey)
		if !ok || key.Curve != elliptic.P256() || cert.SignatureAlgorithm != x509.ECDSAWithSHA256 {
			t.Errorf("%s: %T, %v", name, cert.PublicKey, cert.SignatureAlgorithm)
		}
		if err := cert.VerifyHostname("localhost"); err != nil {
			t.Error(name, err)
		}
	}
}
