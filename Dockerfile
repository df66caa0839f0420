# The image of the controller manager: one static binary under two names, the licenses of what is in it, and nothing else.
#
#   docker build .                                       builds the binary in a container
#   make image                                           takes one built outside, with docker or without (see Makefile)
#
# BINARY_FROM says where the binary comes from: "build", the stage below, or "prebuilt", bin/image/ in the context. With the
# latter no base image is needed, so that a machine that reaches no image registry can build this one, too.
ARG BINARY_FROM=build

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS
ARG TARGETARCH
ARG LDFLAGS="-s -w"
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY pkg pkg
COPY internal internal
COPY hack/notices hack/notices
COPY LICENSE ./
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "$LDFLAGS" -o /image/controller-manager ./cmd/controller-manager
# The name that kubeadm's manifest calls (CLI-75).
RUN ln -s controller-manager /image/kube-controller-manager
RUN go run ./hack/notices -platforms $TARGETOS/$TARGETARCH /licenses

FROM scratch AS prebuilt
ARG TARGETOS
ARG TARGETARCH
COPY bin/image/$TARGETOS-$TARGETARCH /image/
COPY bin/image/licenses /licenses/

FROM ${BINARY_FROM} AS binary

# No shell, no certificates of public authorities: the manager talks to the API server alone, and trusts the authority that
# its kubeconfig or its service account names.
FROM scratch
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title=controller-manager
LABEL org.opencontainers.image.source=https://github.com/standalone-kcm/controller-manager
LABEL org.opencontainers.image.licenses=Apache-2.0
LABEL org.opencontainers.image.version=$VERSION
LABEL org.opencontainers.image.revision=$REVISION
COPY --from=binary /image/ /usr/local/bin/
COPY --from=binary /licenses/ /licenses/
ENV PATH=/usr/local/bin
USER 65532:65532
EXPOSE 10257
ENTRYPOINT ["controller-manager"]
