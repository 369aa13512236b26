# Build stage: compile, then keep production dependencies only.
FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
COPY scripts/ensure-installed.mjs scripts/
RUN npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY src src
RUN npm run build && npm prune --omit=dev --no-audit --no-fund && rm -f dist/.tsbuildinfo

# Final stage: Node, the program and what it needs to run. No compiler, no package manager is used here.
FROM node:24-bookworm-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY proto proto
COPY config config
RUN rm -rf /usr/local/lib/node_modules/npm /usr/local/bin/npm /usr/local/bin/npx /opt/yarn* \
  && mkdir -p /data && chown node:node /data && chmod 700 /data
USER node
VOLUME /data
# Inside a container loopback reaches nobody: the ports are published by the operator, who decides to whom.
ENV FCI_DATA_DIR=/data FCI_API_HOST=0.0.0.0 FCI_METRICS_HOST=0.0.0.0 FCI_LOG_FORMAT=json
EXPOSE 7180 7181 7182
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.FCI_METRICS_PORT ?? 7182}/livez`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "--enable-source-maps", "/app/dist/main.js"]
CMD ["start"]
