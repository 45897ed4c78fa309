# syntax=docker/dockerfile:1
# The server alone, for `docker build .` from a clean checkout. docs/operations.md says how it is run.
#
# The last stage has no shell and no package manager: glibc, certificates of authorities, the binary.

FROM node:22-bookworm-slim AS console
WORKDIR /src/web
COPY web/package.json web/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY web/ ./
RUN npm run build

FROM rust:1.95.0-bookworm AS build
# clang compiles a program for the kernel (feature tc-clone, on by default), cmake builds libopus. Their
# versions are those of the base image's Debian.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends clang cmake \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
COPY --from=console /src/web/dist web/dist
ARG FEATURES=""
# The image's own toolchain, without the components for developers that rust-toolchain.toml names.
ENV RUSTUP_TOOLCHAIN=1.95.0
RUN scripts/build-release --features "$FEATURES" \
    && install -D -m 0755 target/release/millstream /root-of-image/usr/bin/millstream \
    && install -d -m 0750 /root-of-image/var/lib/millstream \
    && install -D -m 0644 LICENSE-MIT LICENSE-APACHE --target-directory=/root-of-image/usr/share/doc/millstream

FROM gcr.io/distroless/cc-debian12:nonroot
LABEL org.opencontainers.image.title="Millstream" \
      org.opencontainers.image.description="Live media server: WebRTC, RTMP, RTSP, SRT, HLS" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
# The program is root's: whoever takes over the server cannot replace it.
COPY --from=build /root-of-image/usr/ /usr/
COPY --from=build --chown=65532:65532 /root-of-image/var/lib/millstream/ /var/lib/millstream/
USER 65532:65532
WORKDIR /var/lib/millstream
# RTMP, HTTP, WebRTC of the first worker, SRT, RTSP and its RTP. Each further worker has the next port
# of WebRTC and the next two of RTP.
EXPOSE 1935/tcp 8080/tcp 8189/tcp 8189/udp 8890/udp 8554/tcp 8000-8001/udp
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 \
    CMD ["/usr/bin/millstream", "healthcheck"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/millstream"]
