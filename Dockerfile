# The worker of docker-compose.yml: starter on an image that can run your trials. On
# Kubernetes it may be the runnerImage.
#   docker build --build-arg BASE=pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime .
ARG BASE=python:3.12-slim-bookworm

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# Node.js for the dashboard's pages comes from PyPI.
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends python3-venv
ARG VERSION=unknown
RUN make build VERSION=${VERSION} && cp bin/perennial-runner-linux-$(go env GOARCH) bin/perennial-runner

FROM ${BASE}
COPY --from=build /src/bin/starter /src/bin/perennial-runner /usr/local/bin/
# Whoever runs the container keeps their state below /state.
RUN mkdir -m 1777 /state /keys
ENV PERENNIAL_HOME=/state/perennial
WORKDIR /work
CMD ["starter", "worker"]
