# "make" lists the targets. Needed are Go, make and git; everything else is built from pinned Go modules.

export GOTOOLCHAIN := local
export GOWORK := off
# All that is built here has these settings, but for the race detector, which needs cgo: programs, tests, checks, the local control plane
# and releases share the packages that are compiled. "go env -w CGO_ENABLED=0 GOFLAGS=-trimpath" makes commands by hand share them, too.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(filter-out -trimpath -trimpath=%,$(shell go env GOFLAGS)) -trimpath)

# The Kubernetes release that the manager takes the place of; as with other distributions, what follows the + is ours.
VERSION := v1.37.2+standalone

COMMIT := $(shell git rev-parse HEAD 2>/dev/null)
TREE_STATE := $(if $(shell git status --porcelain 2>/dev/null),dirty,clean)
COMMIT_DATE := $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)
# Our own version: the tag, or the tag and the commits since; while there is no tag, the release that CHANGELOG.md begins with.
NUMBER := v0.1.0
RELEASE := $(or $(shell git describe --tags --dirty 2>/dev/null),$(NUMBER))
STAMP := k8s.io/component-base/version
LDFLAGS := -s -w -X $(STAMP).gitVersion=$(VERSION) -X $(STAMP).gitMajor=1 -X $(STAMP).gitMinor=37 \
	-X $(STAMP).gitCommit=$(COMMIT) -X $(STAMP).gitTreeState=$(TREE_STATE) -X $(STAMP).buildDate=$(COMMIT_DATE) \
	-X github.com/standalone-kcm/controller-manager/cmd/controller-manager/app.release=$(RELEASE)

# The default tag names the commit, so that two images that differ have different names, and a rollout of a new one is seen.
# A tag must not contain "+". Without git there is no commit to name.
IMAGE_COMMIT = $(shell git describe --always --abbrev=12 --exclude='*' 2>/dev/null)
IMAGE_CHANGES = $(shell { git diff HEAD; git ls-files --others --exclude-standard | xargs -r -d '\n' cat; } 2>/dev/null | git hash-object --stdin | cut -c1-8)
IMAGE_DIRTY = $(if $(filter dirty,$(TREE_STATE)),-dirty-$(IMAGE_CHANGES))
IMAGE_TAG = $(subst +,-,$(VERSION)).$(IMAGE_RELEASE)$(addprefix -,$(IMAGE_COMMIT))$(IMAGE_DIRTY)
# Which of our releases for this version of Kubernetes it is: a tag is never used for two builds (RELEASE.md).
IMAGE_RELEASE := 1
# No registry has the image, and no container runtime may look for one: ".invalid" never resolves (RFC 2606).
IMAGE ?= registry.invalid/controller-manager:$(IMAGE_TAG)
IMAGE_PLATFORMS ?= linux/$(shell go env GOARCH)
# "prebuilt": a binary built outside; "build": in a container, which needs the image golang.
BINARY_FROM ?= prebuilt
BUILD_OF := -version '$(VERSION)' -date '$(COMMIT_DATE)' -ldflags '$(LDFLAGS)'
IMAGE_OF := $(BUILD_OF) -revision '$(COMMIT)' -tag '$(IMAGE)' -platforms $(IMAGE_PLATFORMS)

# What measures commands, remembers which checks have passed, and names the packages that are tested under the race detector. It is in the
# user's cache, as Go's cache of test results knows tests by the program that runs them: several clones share the results.
GATE_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/controller-manager-gate
GATE := $(GATE_CACHE)/gate
export GATE_STAMPS ?= $(GATE_CACHE)/passed
# How the tests of the gate are compiled and run: make verify has vetted them, and nobody debugs them.
TEST := -vet=off -ldflags='-s -w' -exec='$(GATE) measure'

# The race detector needs a C compiler. It is asked where goroutines are started; all else is tested ten times as fast without it.
RACE := $(if $(shell command -v $$(go env CC) 2>/dev/null),-race)
RACE_TEST := CGO_ENABLED=1 go test $(RACE) -vet=off -ldflags='-s -w' -exec='$(GATE) measure $(RACE)'
RACY = $(GATE) racy $(1) cmd internal pkg test/chaos test/cluster test/faults test/metricsapi

# The seconds that the slowest package of each suite took on the slowest two cores so far, and for what gets what others leave (the simulation, the mutants
# and the toy), twice as many. A package may take three times as long.
SECONDS_UNIT := 160
SECONDS_RACE := 100
SECONDS_CLUSTER := 60
SECONDS_INTEGRATION := 500
SECONDS_CHAOS := 500
SECONDS_MUTATION := 240
SECONDS_TOY := 120
SECONDS_UPGRADE := 240
SECONDS_SIMULATION := 1200
SECONDS_STORAGE := 60
SECONDS_EXAM := 300
timeout = -timeout=$$((3*$(SECONDS_$(1))))s
test_timeout = $(patsubst -%,-test.%,$(call timeout,$(1)))

# Modules that only pin programs have no code of their own to check.
FILES = $(shell git ls-files --cached --others --exclude-standard)
MODULES = $(patsubst %/,%,$(dir $(filter go.mod %/go.mod,$(FILES))))
PIN_MODULES := $(addprefix hack/localcluster/,csi etcd kubernetes kubernetes-1.36 kubernetes-1.35 kwok) hack/vulncheck hack/helm
CODE_MODULES = $(filter-out $(PIN_MODULES),$(MODULES))

# Modules that take minutes to compile where nothing is cached.
MUCH_TO_COMPILE := hack/tools test/alerts test/differential
# What decides whether a check is the same, beside its own files.
GATE_FILES := Makefile,hack/gate
# The controllers that the tests of volumes have nothing to do with.
NOT_OF_STORAGE = $(filter-out %/attachdetach %/ephemeralvolume %/persistentvolumebinder %/persistentvolumeexpander %/pvcprotection %/pvprotection \
	%/vacprotection %/garbagecollector %/namespace %/nodelifecycle %/podgc %/serviceaccount,$(patsubst %/,%,$(wildcard pkg/controllers/*/)))

comma := ,
empty :=
space := $(empty) $(empty)
lower = $(shell echo $(1) | tr A-Z a-z)

FUZZTIME ?= 1m
SIM_TIME ?= 200s
# The simulation is compiled with an edited runtime, by which a seed decides a run (test/overlay), and with known mistakes, which are off
# unless test/mutation switches one on.
OVERLAY = $(shell go run ./test/overlay/cmd $(CURDIR)/bin/.overlay)
SIMULATE = env SIM_OVERLAY=required go test -count=1 -vet=off -ldflags='-s -w' -overlay=$(OVERLAY) ./test/simulation
# The search of a night takes so long in all. Its seeds follow the minute in which it begins; to repeat a night, name its seed.
NIGHTLY ?= 120m
NIGHTLY_SEED ?= $(shell date -u +%Y%m%d%H%M)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build gate run test test-unit test-modules test-race test-integration localcluster fuzz nightly chaos soak reliability upgrade releases storage storage-if-changed observer agreement agreement-mutants capacity chart exam simulate bench bench-writes clean image image-name image-test release vulncheck generate \
	verify verify-gofmt verify-tidy verify-vet verify-staticcheck verify-generated verify-api verify-shape verify-release verify-platforms

help: ## List the targets
	@echo "Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build bin/controller-manager
	go build -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/controller-manager ./cmd/controller-manager

# It builds the manager as "make build" does, and says how far it is.
run: ## Start a control plane (KUBERNETES=1.36, 1.35: an older one) with our controller manager, roll out examples/web.yaml (EXAMPLES=all: all of examples/, with a CSI driver), stay until Ctrl-C
	go -C hack/localcluster build -buildvcs=false -o $(CURDIR)/bin/localcluster .
	@exec bin/localcluster run --build-manager='$(LDFLAGS)' $(addprefix --examples=,$(EXAMPLES))

gate:
	@go build -buildvcs=false -ldflags='-s -w' -o $(GATE) ./hack/gate

test: test-unit test-integration storage ## Run all tests

# Packages whose tests are run whole, as they are for the simulation and those that need a control plane in test-integration. Of the
# others, rapid divides the number of its checks by five in short tests.
WHOLE := ./internal/podcache ./test/oracle/...
ELSEWHERE := simulation cluster/.* cluster integration chaos/.* chaos

TEST_LOCALCLUSTER = cd hack/localcluster && $(if $(RACE),$(RACE_TEST),go test $(TEST)) ./...

# The tests of hack/tools read files outside their module, of which Go's cache of test results knows nothing: -count=1.
test-unit: gate ## Run the tests that need no control plane
	RAPID_CHECKS=500 go test -short $(TEST) $(call timeout,UNIT) $$(go list ./... | grep -vxF "$$(go list $(WHOLE))" \
		| grep -vE '/test/($(subst $(space),|,$(ELSEWHERE)))$$')
	go test $(TEST) $(call timeout,UNIT) $(WHOLE)
	$(if $(RACE),$(RACE_TEST) -short $(call timeout,RACE) $$($(call RACY)))
	$(if $(RACE),$(RACE_TEST) $(call timeout,RACE) ./test/simulation -run TestSeeds -seeds=8)
	$(TEST_LOCALCLUSTER)
	cd hack/tools && go test $(TEST) -count=1 $$(go list ./... | grep -vE "/(manifests|chart)$$")
	cd test/csidriver && $(if $(RACE),$(RACE_TEST),go test $(TEST)) ./...
	@$(MAKE) --no-print-directory test-modules

# With GATE_STAMPS= they run, whatever has passed.
test-modules: gate ## Run the tests of alerts, the ServiceMonitor and the differential test, unless they have passed with the same inputs
	$(GATE) unchanged -name alerts -packages test/alerts:./... -files $(GATE_FILES),deploy go -C test/alerts test $(TEST) -count=1 ./...
	$(GATE) unchanged -name manifests -packages hack/tools:./manifests -files $(GATE_FILES),deploy go -C hack/tools test $(TEST) -count=1 ./manifests
	$(GATE) unchanged -name differential -packages test/differential:./... -files $(GATE_FILES) go -C test/differential test $(TEST) ./...

test-race: gate ## Run all that has to do with goroutines or locks under the race detector
	$(if $(RACE),$(RACE_TEST) -short -count=1 -timeout=20m $$($(call RACY,-all)))

# How many random scripts the simulation runs here; the search has those up to 800 as well, and others.
SEEDS := 300
# What needs a control plane mostly waits. So four lanes run at the same time: two of suites, and two at low priority that take what is left of
# the processors: the random scripts and crashes of the simulation, and its other tests, then the mutants and the toy.
SUITES := CLUSTER INTEGRATION CHAOS
test-integration: build localcluster gate ## Run the tests on a local control plane, and the simulation and the mutants beside them
	@rm -rf bin/log bin/suites && mkdir -p bin/log bin/suites
	$(SIMULATE) -c -o bin/simulation.test
	go test -c -p=2 -vet=off -ldflags='-s -w' -o bin/suites/ $(addprefix ./,$(foreach each,$(SUITES) MUTATION TOY,$(call folders,$(each))))
	@cd test/integration && MANAGER_BUILT=$(CURDIR)/bin/controller-manager $(GATE) measure -as 'test/integration (quiet)' \
		$(CURDIR)/bin/suites/integration.test -test.paniconexit0 $(call test_timeout,INTEGRATION) -test.run='^($(QUIET))$$'
	@lanes=; \
	$(call lane,integration,$(foreach each,CLUSTER INTEGRATION,$(call suite,$(each)))) \
	$(call lane,chaos,$(call suite,CHAOS)) \
	$(call lane,seeds,$(call simulation,seeds,-test.run='$(LONG)' -seeds=$(SEEDS))) \
	$(call lane,others,$(call simulation,others,-test.skip='$(LONG)') $(foreach each,MUTATION TOY,$(call suite,$(each),$(LAST)))) \
	failed=; for lane in $$lanes; do log=bin/log/$${lane%:*}; wait $${lane#*:} && cat $$log || failed="$$failed $$log"; done; \
	test -z "$$failed" || { cat $$failed; exit 1; }

# A test that compares how long something takes has the machine for itself.
QUIET := TestOneTenantCostsOthersLittle
lane = ( failed=0; $(2) exit $$failed ) >bin/log/$(1) 2>&1 & lanes="$$lanes $(1):$$!";
LONG := TestSeeds|TestCrashAtEveryWrite
LAST := nice -n 19
# The folders with tests of a suite, and how they are run, one after the other: with the manager and the simulation that are there.
folders = $(patsubst %/,%,$(sort $(dir $(shell find test/$(call lower,$(1)) -name '*_test.go'))))
suite = $(foreach folder,$(call folders,$(1)),echo "=== $(folder)"; (cd $(folder) && \
	MANAGER_BUILT=$(CURDIR)/bin/controller-manager SIM_PROGRAM=$(CURDIR)/bin/simulation.test $(2) $(GATE) measure \
	$(CURDIR)/bin/suites/$(notdir $(folder)).test -test.paniconexit0 $(call test_timeout,$(1)) -test.skip='TestMutantsAtRandom|$(QUIET)') || failed=1;)
# It is compiled once for all: with its edited runtime, that takes minutes where nothing is cached.
simulation = echo "=== test/simulation ($(1))"; (cd test/simulation && SIM_OVERLAY=required $(LAST) $(GATE) measure -as 'test/simulation ($(1))' \
	$(CURDIR)/bin/simulation.test -test.paniconexit0 $(call test_timeout,SIMULATION) $(2)) || failed=1;

chaos: build localcluster ## Kill at every write, cut and lie between the manager and the API server; oracles judge
	CHAOS_FULL=1 go test ./test/chaos -count=1 -v -timeout=60m

soak: build localcluster ## Random work and faults for SOAK (10m)
	go test ./test/chaos -count=1 -v -timeout=0 -run '^TestSoak$$' -soak=$(or $(SOAK),10m)

simulate: ## Random work and faults in virtual time for SIM_TIME (200s); a failing seed is shrunk and printed
	SIM_TIME=$(SIM_TIME) $(SIMULATE) -v -timeout=0 -run TestSeeds -seeds=1000000

# "go run ./test/chaos/reliability -help" lists the flags that RELIABILITY may have.
reliability: build localcluster ## Run the suites of test/chaos with ours and the original and write the tables of docs/reliability.md
	go -C hack/localcluster run . build --with-upstream
	MANAGER_BUILT=$(CURDIR)/bin/controller-manager go run ./test/chaos/reliability -original "$$(go -C hack/localcluster run . path kube-controller-manager)" -write docs/reliability.md $(RELIABILITY)

# The releases before the one that the control plane is of.
OLDER := 1.36 1.35

upgrade: build localcluster ## Hand a cluster over from kube-controller-manager of the release before to ours, to that of this release, and to ours
	go -C hack/localcluster run . build --with-upstream
	KUBERNETES=$(firstword $(OLDER)) go -C hack/localcluster run . build --with-upstream
	go test -count=1 -v $(call timeout,UPGRADE) ./test/upgrade -newer="$$(go -C hack/localcluster run . path kube-controller-manager)" \
		-older="$$(KUBERNETES=$(firstword $(OLDER)) go -C hack/localcluster run . path kube-controller-manager)"

releases: build ## Run the integration tests on API servers of the releases before
	@for release in $(OLDER); do export KUBERNETES=$$release; \
		go -C hack/localcluster run . build && go test -count=1 -vet=off $(call timeout,INTEGRATION) ./test/integration || exit; done

storage: build ## Run the tests of volumes, with a CSI driver and the sidecars that drivers have (the first time they are built: 1 to 3 minutes)
	go -C hack/localcluster run . build --with-csi
	MANAGER_BUILT=$(CURDIR)/bin/controller-manager STORAGE=1 go test -count=1 -v -vet=off -ldflags='-s -w' $(call timeout,STORAGE) ./test/integration -run '^(TestLifeOfAVolume|TestVolumesThatWaitForPods|TestDriver.*)$$'

observer: build localcluster ## Run an observer, with the roles of its manifest, beside all kinds of work
	MANAGER_BUILT=$(CURDIR)/bin/controller-manager OBSERVE=1 go test -count=1 -v -vet=off -ldflags='-s -w' $(call timeout,STORAGE) ./test/integration -run '^(TestObserver|TestEachRightIsUsedAndNoOther)$$'

chart: build localcluster bin/helm ## Check the Helm chart, compare it with the other manifests, and install, upgrade and remove it (the first time helm is built)
	HELM=$(CURDIR)/bin/helm KUBECTL="$$(go -C hack/localcluster run . path kubectl)" go -C hack/tools test -count=1 -vet=off ./chart
	HELM=$(CURDIR)/bin/helm MANAGER_BUILT=$(CURDIR)/bin/controller-manager go test -count=1 -v -vet=off -ldflags='-s -w' $(call timeout,STORAGE) ./test/integration -run '^TestChart$$'

capacity: ## Measure what an object of each kind costs in memory, and write the table of docs/operations.md
	go test -count=1 -v -vet=off ./test/growth -run '^TestCapacity$$' -capacity=$(CURDIR)/docs/operations.md

# The goal is AGREEMENT=2h. With ORIGINAL= the leader is ours.
ORIGINAL = $(shell go -C hack/localcluster run . path kube-controller-manager)
agreement: build localcluster ## Compare the plans of an observer with what the original does under random work, for AGREEMENT (10m)
	MANAGER_BUILT=$(CURDIR)/bin/controller-manager go test ./test/chaos -count=1 -v -timeout=0 -run '^TestAgreement$$' -agreement=$(or $(AGREEMENT),10m) \
		-agreement-leader="$(ORIGINAL)" $(AGREEMENT_FLAGS)

agreement-mutants: build localcluster ## Say which known mistakes of a leader an observer notices, one of each controller
	go build -buildvcs=false -overlay="$$(go run ./test/overlay/cmd "$$(mktemp -d)")" -ldflags '-s -w' -o bin/mutants ./cmd/controller-manager
	MANAGER_BUILT=$(CURDIR)/bin/controller-manager go test ./test/chaos -count=1 -v -timeout=0 -run '^TestAgreementNoticesMutants$$' \
		-agreement=$(or $(AGREEMENT),5m) -agreement-mutants=$(CURDIR)/bin/mutants $(AGREEMENT_FLAGS)

# "make exam EXAM='-write docs/why.md'" writes the table.
exam: build ## Ask "controller-manager why" about problems whose cause is known (the first time a CSI driver is built: 1 to 3 minutes)
	go -C hack/localcluster run . build --with-csi
	MANAGER_BUILT=$(CURDIR)/bin/controller-manager STORAGE=1 go test -count=1 -v -vet=off -ldflags='-s -w' $(call timeout,EXAM) ./test/exam $(EXAM)

# All that the manager consists of is an input, but for other controllers.
storage-if-changed: gate
	$(GATE) unchanged -name storage -packages .:./cmd/controller-manager,.:./test/integration,test/csidriver:./...,hack/localcluster:./... \
		-without $(subst $(space),$(comma),$(strip $(NOT_OF_STORAGE))) -files $(GATE_FILES),hack/localcluster,deploy \
		$(MAKE) --no-print-directory storage

bench: build ## Measure ours beside the original (BENCH=quick: small sizes; BENCHFLAGS='-only writes -write ../../docs/performance.md')
	go -C hack/localcluster run . build --with-upstream
	go -C test/bench run . $(if $(filter quick,$(BENCH)),-quick) -out $(CURDIR)/bin/bench.json $(BENCHFLAGS)

bench-writes: build localcluster ## The quick benchmark of ours alone (ONLY=writes: one scenario): writes, refusals and invariants are judged, no times
	go -C test/bench run . -quick -original none -cpu-floor=false $(addprefix -only=,$(ONLY)) -out $(CURDIR)/bin/bench.json

localcluster: ## Build the programs of the local control plane (the first time 5 to 8 minutes)
	go -C hack/localcluster run . build

verify: verify-gofmt verify-tidy verify-vet verify-staticcheck verify-generated verify-api verify-shape ## Check format, modules, code, generated files, the list of the public API, and the shape of the project

verify-gofmt:
	@files=$$(gofmt -l $(filter %.go,$(FILES))); if [ -n "$$files" ]; then echo "gofmt would change:" $$files; exit 1; fi

verify-tidy:
	@for module in $(MODULES); do echo "go -C $$module mod tidy -diff"; go -C $$module mod tidy -diff || exit 1; done

# Both compile what a module imports; where that is much, they run if there is something new to check.
verify-vet: gate
	@for module in $(CODE_MODULES); do echo "go -C $$module vet ./..."; $(if_new) go -C $$module vet ./... || exit 1; done

# Each module in a run of its own, with a program built before: staticcheck reads the module of the folder it runs in.
verify-staticcheck: gate
	go -C hack/tools build -o $(CURDIR)/bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	@for module in $(CODE_MODULES); do echo "staticcheck $$module"; $(if_new) sh -c 'cd $$0 && "$$OLDPWD"/bin/staticcheck ./...' $$module || exit 1; done

if_new = $$(case $$module in $(subst $(space),|,$(MUCH_TO_COMPILE))) echo "$(GATE) unchanged -name $@-$$(basename $$module) \
	-packages $$module:./... -files $(GATE_FILES),hack/tools/go.mod,hack/tools/go.sum";; esac)

verify-generated:
	go run ./hack/gen --check

verify-api:
	go run ./hack/api --check

# What the project looks like, what its pages say, and what the gate compiles. test-unit finds the results.
verify-shape: gate
	RAPID_CHECKS=500 go test -short $(TEST) $(call timeout,UNIT) .
	$(TEST_LOCALCLUSTER)

generate: ## Make the files that follow from others: roles, the table of rights in docs/security.md, alerts, the list of the public API
	go run ./hack/gen
	go run ./hack/api

image: ## Build the container image IMAGE for IMAGE_PLATFORMS, with docker buildx or with buildah
	@go -C hack/tools run ./image $(IMAGE_OF) -from $(BINARY_FROM) $(if $(PUSH),-push) $(CURDIR)

image-name: ## Print the name of the image that "make image" builds
	@echo '$(IMAGE)'

image-test: ## Make of the Dockerfile what a builder would, and run what is in it (BUILDER=1: build it with buildah); needs Linux and root
	@go -C hack/tools run ./image $(IMAGE_OF) -test $(if $(BUILDER),-builder) $(CURDIR)

# RELEASE_IMAGE=REPOSITORY@DIGEST: the image that the manifests name.
release: vulncheck bin/helm ## Build dist/: binaries for linux, darwin and windows, bills of materials, manifests of each mode, checksums
	@go -C hack/tools run ./release $(BUILD_OF) -helm $(CURDIR)/bin/helm $(addprefix -image=,$(RELEASE_IMAGE)) -out $(CURDIR)/dist $(CURDIR)

bin/helm: hack/helm/go.mod
	go -C hack/helm build -o $(CURDIR)/bin/helm helm.sh/helm/v4/cmd/helm

# VULNCHECK=-any-go: what a newer Go mends is printed, and is no failure.
vulncheck: ## Look for known vulnerabilities in what the manager calls, with a database that is pinned
	go -C hack/vulncheck build -o $(CURDIR)/bin/govulncheck golang.org/x/vuln/cmd/govulncheck
	go -C hack/tools run ./vulncheck $(VULNCHECK) -govulncheck $(CURDIR)/bin/govulncheck $(CURDIR) ./cmd/controller-manager

# The bytes of one platform: to build all six twice takes long, and "make release" builds them. With STRICT=1 the second build has an
# empty cache, so that each package is compiled twice, in different folders. Without, packages whose source, settings and dependencies
# are the same are compiled once, and what is compared is that they are the same in both folders, and what the linker makes of them.
verify-release: ## Build a release twice, in different folders, and compare the bytes (STRICT=1: and with two build caches)
	@go -C hack/tools run ./release $(BUILD_OF) -platforms linux/amd64 -verify $(if $(STRICT),-strict) $(CURDIR)

verify-platforms: ## Compile for other systems
	GOOS=windows GOARCH=amd64 go build -o /dev/null ./cmd/controller-manager
	GOOS=darwin GOARCH=arm64 go build -o /dev/null ./cmd/controller-manager

fuzz: ## Compile and fuzz all targets for FUZZTIME (1m) in all, as many at a time as there are processors
	go -C hack/tools run ./fuzz -time $(FUZZTIME) $(CURDIR)

nightly: build localcluster gate ## Search for mistakes with what differs each time, for NIGHTLY (120m) in all, and write finds where they are committed
	@go -C hack/tools run ./nightly -time $(NIGHTLY) -seed $(NIGHTLY_SEED) -gate-seeds $(SEEDS) -simulate "$(SIMULATE)" $(CURDIR)

clean: ## Remove what was built here, all local control planes and their programs
	go -C hack/localcluster run . clean
	rm -rf bin dist
