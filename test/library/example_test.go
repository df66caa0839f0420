package library

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/pkg/controllers/deployment"
	"github.com/standalone-kcm/controller-manager/pkg/controllers/replicaset"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/test/library/website"
)

// A program of one's own that runs two controllers of Kubernetes.
func Example() {
	plane := newControlPlane()
	defer plane.stop()

	ctx, cancel := context.WithCancel(context.Background())
	m, err := manager.New(plane.config, manager.Options{Controllers: []manager.Controller{
		deployment.New(deployment.Options{Workers: 10}),
		replicaset.New(replicaset.Options{}),
	}})
	if err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	if err := m.WaitUntilRunning(ctx); err != nil {
		panic(err)
	}

	plane.createDeployment("web", 3)
	fmt.Println("available:", plane.waitForDeployment("web", 3))

	cancel()
	fmt.Println("ended with:", <-ended)
	// Output:
	// available: 3
	// ended with: <nil>
}

// A controller for a custom resource, together with those of Kubernetes that it needs.
func Example_ownController() {
	plane := newControlPlane()
	defer plane.stop()

	scheme := runtime.NewScheme()
	if err := website.AddToScheme(scheme); err != nil {
		panic(err)
	}
	m, err := manager.New(plane.config, manager.Options{
		Scheme: scheme,
		Controllers: []manager.Controller{
			website.New(), deployment.New(deployment.Options{}), replicaset.New(replicaset.Options{}),
		},
	})
	if err != nil {
		panic(err)
	}
	defer run(m)()

	plane.createWebsite("shop", website.Spec{Image: "shop:1", Replicas: 2})
	fmt.Println("ready:", plane.waitForWebsite("shop", 2))
	plane.scaleWebsite("shop", 4)
	fmt.Println("ready:", plane.waitForWebsite("shop", 4))
	// Output:
	// ready: 2
	// ready: 4
}

// Two managers in one process, each with a cluster of its own.
func Example_twoManagers() {
	for _, one := range []struct {
		name     string
		replicas int32
	}{{"blue", 1}, {"green", 2}} {
		plane := newControlPlane()
		defer plane.stop()
		defer start(plane.config)()
		plane.createDeployment(one.name, one.replicas)
		defer func() { fmt.Println(one.name, "available:", plane.waitForDeployment(one.name, one.replicas)) }()
	}
	// Output:
	// green available: 2
	// blue available: 1
}

// start runs the controllers of Deployments.
func start(config *rest.Config) (stop func()) {
	m, err := manager.New(config, manager.Options{Controllers: []manager.Controller{
		deployment.New(deployment.Options{}), replicaset.New(replicaset.Options{}),
	}})
	if err != nil {
		panic(err)
	}
	return run(m)
}

// run runs a manager until stop is called. It returns when the controllers run.
func run(m *manager.Manager) (stop func()) {
	stop = begin(m)
	patience, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	if err := m.WaitUntilRunning(patience); err != nil {
		panic(err)
	}
	return stop
}

// begin does the same, and returns at once.
func begin(m *manager.Manager) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			panic(err)
		}
	}
}
