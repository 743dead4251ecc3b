# syntax=docker/dockerfile:1

# The first stage builds a static binary; the second holds it and nothing else: no shell, no package manager, no root.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /sallyport ./cmd/sallyport

FROM scratch
ARG VERSION
LABEL org.opencontainers.image.title="Sallyport" \
      org.opencontainers.image.description="A Kubernetes Ingress controller that is its own reverse proxy" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /sallyport /sallyport
COPY LICENSE /LICENSE
USER 65532:65532
# HTTP, HTTPS, and the admin port with health, metrics and routes.
EXPOSE 8080 8443 10254
ENTRYPOINT ["/sallyport"]
CMD ["run"]
