package floor

import "testing"

func TestFloors(t *testing.T) {
	surge, unavailable := DefaultRoom(500)
	if surge != 125 || unavailable != 125 {
		t.Errorf("room of 500 replicas: %d and %d", surge, unavailable)
	}
	surge, unavailable = DefaultRoom(2)
	if surge != 1 || unavailable != 0 {
		t.Errorf("room of 2 replicas: %d and %d", surge, unavailable)
	}
	for _, row := range []struct {
		what   string
		got    Writes
		status int
		total  int
	}{
		{"create 250 Deployments of 2", CreateDeployments(250, 2), 500, 1250},
		{"update 250 Deployments of 2", UpdateDeployments(250, 2, 1, 0), 750, 2750},
		{"update 500 Deployments of 2", UpdateDeployments(500, 2, 1, 0), 1500, 5500},
		{"update one Deployment of 500", UpdateDeployments(1, 500, 125, 125), 3, 1009},
		{"scale one from 0 to 2000", ScaleDeployment(2000), 2, 2003},
		{"scale one from 0 to 300", ScaleDeployment(300), 2, 303},
	} {
		if row.got.Total() != row.total || row.got.Status != row.status {
			t.Errorf("%s: floor %+v, want %d, %d of them status", row.what, row.got, row.total, row.status)
		}
	}
}

func TestRollingSteps(t *testing.T) {
	for _, row := range []struct{ replicas, surge, unavailable, want int }{
		{500, 125, 125, 5},
		{2, 1, 0, 3},    // 2->1, 1->2, 1->0
		{2, 2, 0, 1},    // the new ones all at once, then the old ones away
		{1, 1, 0, 1},    // 1->0
		{1, 0, 1, 2},    // 1->0, 0->1
		{4, 0, 1, 8},    // one at a time: four down, four up
		{0, 0, 0, 0},    // nothing to roll
		{10, 0, 10, 2},  // all down, all up
		{10, 20, 10, 1}, // the new set is created with all of them
	} {
		if got := rollingSteps(row.replicas, row.surge, row.unavailable); got != row.want {
			t.Errorf("%+v: %d steps", row, got)
		}
	}
}
