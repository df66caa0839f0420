package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// alerts are the alert rules that are written by hand.
const alerts = "deploy/monitoring/alerts.yaml"

const besideHeader = `# Made by "go run ./hack/gen" from alerts.yaml. Do not edit.
# Use this file instead of alerts.yaml with the overlay beside-upstream, where the job of the original would hide ours.
`

// alertsBeside makes the alert rules for a manager that runs beside the original.
func alertsBeside([]byte) ([]byte, error) {
	rules, err := os.ReadFile(alerts)
	if err != nil {
		return nil, err
	}
	return withJob(string(rules), beside)
}

// withJob returns alert rules for another job than the original's, without the comment that begins them.
func withJob(rules, job string) ([]byte, error) {
	const from = `job="` + original + `"`
	_, groups, ok := strings.Cut("\n"+rules, "\ngroups:\n")
	if !ok {
		return nil, errors.New("there are no groups of rules")
	}
	if !strings.Contains(groups, from) {
		return nil, fmt.Errorf("no rule selects %s", from)
	}
	return []byte(besideHeader + "groups:\n" + strings.ReplaceAll(groups, from, `job="`+job+`"`)), nil
}
