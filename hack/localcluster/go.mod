module github.com/standalone-kcm/controller-manager/hack/localcluster

go 1.26.0
