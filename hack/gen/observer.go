package main

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/rbac"
)

// observer is the account of the observer; roles are called after it.
const observer = "controller-manager-observer"

// observerRoles replaces the roles in the manifest of the observer, which are all that follows its own objects.
func observerRoles(before []byte, registry []manager.Controller) ([]byte, error) {
	made, err := render(rolesOfObserver(registry))
	if err != nil {
		return nil, err
	}
	begin, _, _ := bytes.Cut(made, []byte("\n"))
	own, _, found := bytes.Cut(before, append(begin, '\n'))
	if !found {
		return nil, errors.New("the line above the roles is missing")
	}
	return slices.Concat(own, made), nil
}

// rolesOfObserver are the roles to list and watch what the controllers read that are on by default.
func rolesOfObserver(registry []manager.Controller) []role {
	rights := rbac.Observer(rightsOf(registry, roleSets[1]))
	all := []role{{Name: observer, Account: observer, Rules: rights.Own}}
	for _, namespace := range slices.Sorted(maps.Keys(rights.In)) {
		all = append(all, role{Name: observer, Namespace: namespace, Account: observer, Rules: rights.In[namespace]})
	}
	return all
}
