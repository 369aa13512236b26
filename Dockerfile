# The base goes by its tag. For builds that are the same to the byte, pin it by digest: docker build --build-arg BASE=node@sha256:…
ARG BASE=node:24-bookworm-slim

# The packages that the program runs with, as the lockfile pins them.
FROM ${BASE} AS packages
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund

# Build stage: needs the packages for development too, and none of them is left.
FROM ${BASE} AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --include=dev --ignore-scripts --no-audit --no-fund
COPY tsconfig.json ./
COPY scripts/ensure-installed.mjs scripts/build.mjs scripts/bundle.mjs scripts/describe-proto.mjs scripts/
COPY proto proto
COPY src src
RUN npm run build && chmod +x dist/main.js

# Final stage: Node, the program and what it needs to run. No compiler, no package manager is used here.
FROM ${BASE}
ARG REVISION=unknown
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="flow-collection-indexer" \
  org.opencontainers.image.description="A sidecar for Flow access nodes: a verified, complete, queryable local index of every collection and transaction." \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}" \
  org.opencontainers.image.documentation="/app/README.md"
ENV NODE_ENV=production
WORKDIR /app
COPY --from=packages /app/package.json ./
COPY --from=packages /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY proto proto
COPY config config
COPY README.md ./
COPY docs docs
COPY scripts/healthcheck.sh /usr/local/bin/healthcheck
RUN ln -s /app/dist/main.js /usr/local/bin/flow-collection-indexer \
  && rm -rf /usr/local/lib/node_modules/npm /usr/local/bin/npm /usr/local/bin/npx /opt/yarn* \
  && mkdir -p /data && chown node:node /data && chmod 700 /data
USER node
VOLUME /data
# Inside a container loopback reaches nobody: the ports are published by the operator, who decides to whom.
ENV FCI_DATA_DIR=/data FCI_API_HOST=0.0.0.0 FCI_METRICS_HOST=0.0.0.0 FCI_LOG_FORMAT=json NODE_OPTIONS=--enable-source-maps
EXPOSE 7180 7181 7182
# A start may take long: it verifies a snapshot, or makes an index of a large store. One that fails ends by itself.
HEALTHCHECK --interval=15s --timeout=5s --start-period=1h --retries=3 CMD ["healthcheck"]
ENTRYPOINT ["flow-collection-indexer"]
CMD ["start"]
