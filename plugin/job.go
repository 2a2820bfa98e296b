package plugin

import (
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"memopt/internal/visible"
	"memopt/plugin/pb"
)

// Progress receives what a call is doing, and which fraction of that is done, 0 if unknown.
type Progress func(phase string, done float64)

// maxJobs bounds the jobs that run or are watched at once; maxJobName the length of a name.
const (
	maxJobs    = 1024
	maxJobName = 256
)

// jobs is the calls that can be watched, by the names that the host gave them.
type jobs struct {
	mu    sync.Mutex
	known map[string]*job
}

// job is the state of a call. A watcher may come before the call, or while it runs.
type job struct {
	users   int // the call and its watchers
	note    *pb.ProgressNote
	ended   bool
	changed chan struct{} // closed and replaced at each change
}

// take finds or creates a job; leave removes it after its last user.
func (j *jobs) take(name string) (*job, error) {
	if len(name) > maxJobName {
		return nil, status.Errorf(codes.InvalidArgument, "the name of a job has %d bytes; at most %d", len(name), maxJobName)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	x := j.known[name]
	if x == nil {
		if len(j.known) == maxJobs {
			return nil, status.Errorf(codes.ResourceExhausted, "%d jobs are known; a host has at most %d", len(j.known), maxJobs)
		}
		if j.known == nil {
			j.known = map[string]*job{}
		}
		x = &job{changed: make(chan struct{})}
		j.known[name] = x
	}
	x.users++
	return x, nil
}

func (j *jobs) leave(name string, x *job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if x.users--; x.users == 0 {
		delete(j.known, name)
	}
}

func (j *jobs) change(x *job, change func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change()
	close(x.changed)
	x.changed = make(chan struct{})
}

// begin registers a call that the host named; end ends it. A call without a name cannot be watched.
func (j *jobs) begin(name string) (tell Progress, end func(), err error) {
	if name == "" {
		return func(string, float64) {}, func() {}, nil
	}
	x, err := j.take(name)
	if err != nil {
		return nil, nil, err
	}
	tell = func(phase string, done float64) {
		note := &pb.ProgressNote{Phase: visible.Line(phase), Done: done}
		j.change(x, func() { x.note = note })
	}
	return tell, func() {
		j.change(x, func() { x.ended = true })
		j.leave(name, x)
	}, nil
}

// Progress streams a job's latest note whenever it changes, and ends with the job.
func (s *service) Progress(in *pb.ProgressRequest, stream grpc.ServerStreamingServer[pb.ProgressNote]) error {
	if in.GetJob() == "" {
		return status.Error(codes.InvalidArgument, "no job given")
	}
	x, err := s.jobs.take(in.GetJob())
	if err != nil {
		return err
	}
	defer s.jobs.leave(in.GetJob(), x)
	var sent *pb.ProgressNote
	for {
		s.jobs.mu.Lock()
		note, ended, changed := x.note, x.ended, x.changed
		s.jobs.mu.Unlock()
		if note != sent {
			if err := stream.Send(note); err != nil {
				return err
			}
			sent = note
		}
		if ended {
			return nil
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}
