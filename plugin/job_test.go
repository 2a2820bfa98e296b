package plugin_test

import (
	"io"
	"slices"
	"strings"
	"testing"

	gohost "memopt/plugin/host"
	"memopt/plugin/pb"
)

// TestProgress: a job's watchers hear of it whether they come before the call or not, and of its end.
func TestProgress(t *testing.T) {
	host, memopt, err := gohost.Connect(bare(), true)
	defer host.Kill()
	if err != nil {
		t.Fatal(err)
	}
	early := make([]<-chan []string, 3)
	for i := range early {
		stream, err := memopt.Progress(soon(t), &pb.ProgressRequest{Job: "7"})
		if err != nil {
			t.Fatal(err)
		}
		early[i] = phases(stream)
	}
	for {
		if _, err := memopt.Plan(soon(t), &pb.Question{Model: "m.onnx", Job: "7"}); err != nil {
			t.Fatal(err)
		}
		heard := 0
		for i, c := range early {
			select {
			case got, open := <-c:
				if early[i] = nil; !open || !slices.Equal(got, []string{"repeating m.onnx"}) {
					t.Errorf("watcher %d heard %q", i, got)
				}
			default:
				if c != nil {
					continue
				}
			}
			heard++
		}
		if heard == len(early) {
			break // a call that ended before a watcher came was another job of the name: so there are several
		}
	}
	for job, want := range map[string]string{"": "no job given", strings.Repeat("x", 1000): "1000 bytes"} {
		stream, err := memopt.Progress(soon(t), &pb.ProgressRequest{Job: job})
		if err == nil {
			_, err = stream.Recv()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("job %.10q: error %v, not one with %q", job, err, want)
		}
	}
	if _, err := memopt.Plan(soon(t), &pb.Question{Model: "m.onnx", Job: strings.Repeat("x", 1000)}); err == nil {
		t.Error("a job's name of 1000 bytes was taken")
	}
}

// phases collects what a stream tells, until it ends.
func phases(stream interface {
	Recv() (*pb.ProgressNote, error)
}) <-chan []string {
	all := make(chan []string, 1)
	go func() {
		var heard []string
		for {
			note, err := stream.Recv()
			if err != nil {
				if err == io.EOF {
					all <- heard
				}
				close(all)
				return
			}
			heard = append(heard, note.GetPhase())
		}
	}()
	return all
}
