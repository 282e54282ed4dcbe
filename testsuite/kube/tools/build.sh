#!/usr/bin/env bash
# Builds what the laboratory's cluster consists of into the directory given, one
# program after the other: each alone takes all the memory of a small machine.
# Go's cache makes it seconds where nothing has changed; cold it takes some ten
# minutes on two cores.
set -euo pipefail
tools=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && cd "$1" && out=$PWD
export CGO_ENABLED=0

version=v1.36.3 # that of k8s.io/kubernetes in kubernetes/go.mod; without it clients see a development version
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=36"
done

build() { # directory of the module, name, package
    printf '%s ' "$2" && cd "$tools/$1" && time go build -trimpath -ldflags "$flags" -o "$out/$2" "$3"
}
manifests() { # name, module, files below it
    mkdir -p "$out/manifests/$1"
    local at file
    at=$(go list -m -f '{{.Dir}}' "$2")
    for file in "${@:3}"; do install -m 644 $at/$file "$out/manifests/$1/"; done
    rm -f "$out/manifests/$1/"kustomiz*.yaml
}
TIMEFORMAT='built in %R s (%U s of CPU)'

build kubernetes node ./node
build kubernetes trainer github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager
manifests trainer github.com/kubeflow/trainer/v2 'manifests/base/crds/*.yaml' manifests/base/webhook/manifests.yaml
build kubernetes jobset sigs.k8s.io/jobset
manifests jobset sigs.k8s.io/jobset 'config/components/crd/bases/*.yaml' config/components/webhook/manifests.yaml
build kubeflow training-operator github.com/kubeflow/training-operator/cmd/training-operator.v1
manifests training-operator github.com/kubeflow/training-operator 'manifests/base/crds/*.yaml' manifests/base/webhook/manifests.yaml
build kueue kueue sigs.k8s.io/kueue/cmd/kueue
manifests kueue sigs.k8s.io/kueue 'config/components/crd/bases/*.yaml' config/components/webhook/manifests.yaml
build frameworkcontroller frameworkcontroller github.com/microsoft/frameworkcontroller/cmd/frameworkcontroller
manifests frameworkcontroller github.com/microsoft/frameworkcontroller 'example/config/default/*.yaml'
build ../../.. pause ./testsuite/kube/pause
build ../../.. up ./testsuite/kube/up
