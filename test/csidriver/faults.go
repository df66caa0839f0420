package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Fault is what shall go wrong with calls about volumes. It meets the calls that have what it names.
type Fault struct {
	Method    string `json:"method,omitempty"`    // such as CreateVolume
	Namespace string `json:"namespace,omitempty"` // of the claim that the volume was made for
	Volume    string `json:"volume,omitempty"`    // its name or its ID
	Node      string `json:"node,omitempty"`      // that it is attached to or detached from

	Code    string `json:"code,omitempty"`    // of the error, such as RESOURCE_EXHAUSTED; without one the call is only delayed
	Message string `json:"message,omitempty"` // of the error
	Delay   string `json:"delay,omitempty"`   // before the call, such as 2s
	Late    bool   `json:"late,omitempty"`    // the call does its work, and only its answer is the error
	Times   int    `json:"times,omitempty"`   // how many calls it meets; 0 for all, until it is removed

	code  codes.Code
	delay time.Duration
}

// check reads the fields that are text, and tells what is wrong with them.
func (f *Fault) check() (err error) {
	if f.Code != "" {
		if err := f.code.UnmarshalJSON([]byte(strconv.Quote(f.Code))); err != nil {
			return fmt.Errorf("code: %w", err)
		}
	}
	if f.Delay != "" {
		if f.delay, err = time.ParseDuration(f.Delay); err != nil {
			return fmt.Errorf("delay: %w", err)
		}
	}
	known := slices.ContainsFunc(csi.Controller_ServiceDesc.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == f.Method })
	switch {
	case f.Method != "" && !known:
		return fmt.Errorf("method: the Controller service has no %s", f.Method)
	case f.code == codes.OK && f.delay <= 0:
		return errors.New("neither an error nor a delay")
	case f.code == codes.OK && f.Late:
		return errors.New("late: there is no error that could be")
	case f.Times < 0:
		return errors.New("times: it is negative")
	}
	return nil
}

// err is what a call gets that the fault meets.
func (f *Fault) err() error {
	if f.code == codes.OK {
		return nil
	}
	return status.Error(f.code, cmp.Or(f.Message, "the driver was told to fail"))
}

// Call is one that the driver has had.
type Call struct {
	Time      time.Time `json:"time"` // when it was answered
	Method    string    `json:"method"`
	Namespace string    `json:"namespace,omitempty"`
	Volume    string    `json:"volume,omitempty"` // its name
	Node      string    `json:"node,omitempty"`
	Code      string    `json:"code"` // OK, or that of the error
	Message   string    `json:"message,omitempty"`
}

// keptCalls is how many calls are remembered.
const keptCalls = 10_000

// stage stands before the services: it has calls go wrong, and keeps a record of them.
type stage struct {
	store *store

	mu     sync.Mutex
	faults []*Fault
	calls  []Call
}

// intercept is what each call goes through.
func (s *stage) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if _, ok := info.Server.(csi.ControllerServer); !ok || !aboutVolume(request) {
		return handle(ctx, request)
	}
	c := s.describe(path.Base(info.FullMethod), request)
	answer, err := s.play(ctx, request, s.meets(c), handle)
	c.Time, c.Code = time.Now(), status.Code(err).String()
	if err != nil {
		c.Message = status.Convert(err).Message()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	s.calls = s.calls[max(0, len(s.calls)-keptCalls):]
	return answer, err
}

// play carries a call out as its fault says, if it has one.
func (s *stage) play(ctx context.Context, request any, f *Fault, handle grpc.UnaryHandler) (any, error) {
	if f == nil {
		return handle(ctx, request)
	}
	if f.delay > 0 {
		select {
		case <-time.After(f.delay):
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	if f.code == codes.OK {
		return handle(ctx, request)
	}
	if f.Late {
		if _, err := handle(ctx, request); err != nil {
			return nil, err
		}
	}
	return nil, f.err()
}

// aboutVolume tells whether a request is about a volume; all others ask what the driver can do.
func aboutVolume(request any) bool {
	switch request.(type) {
	case *csi.CreateVolumeRequest, interface{ GetVolumeId() string }:
		return true
	}
	return false
}

// describe names what a request is about.
func (s *stage) describe(method string, request any) Call {
	c := Call{Method: method}
	if r, ok := request.(*csi.CreateVolumeRequest); ok {
		c.Volume, c.Namespace = r.GetName(), r.GetParameters()[claimNamespace]
		return c
	}
	if r, ok := request.(interface{ GetVolumeId() string }); ok {
		c.Volume = r.GetVolumeId()
		if v, ok := s.store.get(c.Volume); ok {
			c.Volume, c.Namespace = v.Name, v.Namespace
		}
	}
	if r, ok := request.(interface{ GetNodeId() string }); ok {
		c.Node = r.GetNodeId()
	}
	return c
}

// meets returns the first fault that a call meets, and counts it.
func (s *stage) meets(c Call) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.faults, func(f *Fault) bool {
		return (f.Method == "" || f.Method == c.Method) && (f.Namespace == "" || f.Namespace == c.Namespace) &&
			(f.Volume == "" || f.Volume == c.Volume || f.Volume == volumeID(c.Volume)) && (f.Node == "" || f.Node == c.Node)
	})
	if i < 0 {
		return nil
	}
	met := *s.faults[i]
	if met.Times == 1 {
		s.faults = slices.Delete(s.faults, i, i+1)
	} else if met.Times > 1 {
		s.faults[i].Times--
	}
	return &met
}

func (s *stage) add(f *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
}

// remove removes the faults of a namespace, or all if none is named.
func (s *stage) remove(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = slices.DeleteFunc(s.faults, func(f *Fault) bool { return namespace == "" || f.Namespace == namespace })
}

// listFaults returns what is left of the faults.
func (s *stage) listFaults() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Fault, 0, len(s.faults))
	for _, f := range s.faults {
		all = append(all, *f)
	}
	return all
}

// listCalls returns the calls about volumes of a namespace, or all if none is named, oldest first.
func (s *stage) listCalls(namespace string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Call, 0, len(s.calls))
	for _, c := range s.calls {
		if namespace == "" || c.Namespace == namespace {
			all = append(all, c)
		}
	}
	return all
}
