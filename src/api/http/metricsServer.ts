import type { Readiness } from '../../observability/index.js';
import { quoted } from '../../runtime/index.js';
import type { ServerDependencies } from '../server/ListeningServer.js';
import { ApiError } from '../view/ApiError.js';
import { HttpServer, type HttpServerOptions } from './HttpServer.js';
import type { HttpRoute } from './types.js';

/** For monitoring: `/metrics`, `/livez` (the event loop turns), `/readyz` (200, or 503 with the reasons). */
export function metricsServer(
  options: HttpServerOptions,
  dependencies: ServerDependencies & {
    /** All metrics, in Prometheus' format. */
    readonly page: () => Promise<{ readonly contentType: string; readonly text: string }>;
    readonly health: { readiness(): Readiness };
  },
): HttpServer {
  const { page, health } = dependencies;
  const routes: readonly HttpRoute[] = [
    {
      path: '/metrics',
      handle: async () => {
        const { contentType, text } = await page();
        return { body: text, contentType };
      },
    },
    { path: '/livez', handle: () => ({ body: { live: true } }) },
    {
      path: '/readyz',
      handle: () => {
        const readiness = health.readiness();
        return { status: readiness.ready ? 200 : 503, body: readiness };
      },
    },
  ];
  const served = routes.map(({ path }) => path).join(', ');
  const unknownPath = (path: string): ApiError =>
    new ApiError(404, 'not_served', `there is nothing at ${quoted(path)}; served here: ${served}`);
  return new HttpServer('metrics', options, { ...dependencies, routes, unknownPath });
}
