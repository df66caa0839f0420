package managertest

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Limits returns how many requests a controller may send at once, and then in each second, where the flags allow one
// and one. The function returns the controller's client, built from a context that has nothing else.
func Limits(t *testing.T, build func(manager.Context) (client.Client, error)) (burst, perSecond int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config := &rest.Config{Host: "http://api", QPS: 1, Burst: 1, Transport: nothing{}}
		mapper, err := client.NewMapper(config)
		if err != nil {
			t.Fatal(err)
		}
		clients, err := client.NewClients(config, mapper, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		cl, err := build(manager.Context{Clients: clients})
		if err != nil {
			t.Fatal(err)
		}
		pods := client.MappingFor[*corev1.Pod]()
		began := time.Now()
		for {
			_ = cl.Get(t.Context(), pods, plan.Key{Namespace: "shop", Name: "web"}, &corev1.Pod{}) // there is none
			switch passed := time.Since(began); {
			case passed > time.Second+time.Millisecond:
				return
			case passed > 0:
				perSecond++
			default:
				burst++
			}
		}
	})
	return burst, perSecond
}

// nothing is an API server that has nothing.
type nothing struct{}

// RoundTrip implements http.RoundTripper.
func (nothing) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Request: r}, nil
}
