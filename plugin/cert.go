package plugin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"time"
)

// WriteClientCert writes a new client certificate and its key as PEM, certificate first, for hosts
// without a cryptography library. The certificate goes into PLUGIN_CLIENT_CERT, the key stays with
// the host.
func WriteClientCert(w io.Writer) error {
	der, key, err := newCert()
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("client key: %w", err)
	}
	for _, b := range []pem.Block{{Type: "CERTIFICATE", Bytes: der}, {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := pem.Encode(w, &b); err != nil {
			return fmt.Errorf("client certificate: %w", err)
		}
	}
	return nil
}

// newCert makes a self-signed certificate for one run. It is P-256 because BoringSSL, inside the
// Python registry's grpcio, cannot verify P-521 signatures. Everything else is as in go-plugin's
// own certificate.
func newCert() (der []byte, key *ecdsa.PrivateKey, err error) {
	key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, fmt.Errorf("certificate serial: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "localhost", Organization: []string{"memopt"}},
		DNSNames:              []string{"localhost"},
		SerialNumber:          serial,
		NotBefore:             now.Add(-24 * time.Hour), // clocks are set back while trainers run
		NotAfter:              now.Add(10 * 365 * 24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate: %w", err)
	}
	return der, key, nil
}

// serverTLS accepts only clients that hold the key to clientPEM. It also returns the server's
// certificate for the handshake.
func serverTLS(clientPEM string) (*tls.Config, []byte, error) {
	if clientPEM == "" {
		return nil, nil, refusal("memopt serve: no PLUGIN_CLIENT_CERT, without which the service would accept any client: " +
			"switch the host's AutoMTLS on")
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM([]byte(clientPEM)) {
		return nil, nil, refusal("memopt serve: PLUGIN_CLIENT_CERT holds no certificate in PEM form")
	}
	der, key, err := newCert()
	if err != nil {
		return nil, nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    clients,
	}, der, nil
}
