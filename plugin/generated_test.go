package plugin

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"memopt/plugin/pb"
)

// What is generated belongs to the .proto beside it; seen without protoc.
func TestGeneratedIsFresh(t *testing.T) {
	source, err := os.ReadFile("proto/memopt.proto")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%x", sha256.Sum256(source))
	python, err := os.ReadFile("python/memopt/_schema.py")
	if err != nil {
		t.Fatal(err)
	}
	if pb.SourceSHA256 != want || !strings.Contains(string(python), `SOURCE_SHA256 = "`+want+`"`) {
		t.Fatal("proto/memopt.proto has changed: run `go generate ./plugin/pb`")
	}

	var text strings.Builder
	for _, line := range regexp.MustCompile(`(?m)^    "(.*)"$`).FindAllStringSubmatch(string(python), -1) {
		text.WriteString(line[1])
	}
	raw, err := base64.StdEncoding.DecodeString(text.String())
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(raw, &set); err != nil {
		t.Fatal(err)
	}
	if len(set.File) != 1 || !proto.Equal(set.File[0], protodesc.ToFileDescriptorProto(pb.File_memopt_proto)) {
		t.Error("Go and Python disagree about the messages")
	}
}
