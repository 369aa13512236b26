import type { Readiness } from '../../observability/index.js';
import { quoted } from '../../runtime/index.js';
import { ApiError } from '../view/ApiError.js';
import { HttpServer } from './HttpServer.js';
import type { HttpServerDependencies, HttpServerOptions } from './HttpServer.js';

export type MetricsServerOptions = Omit<HttpServerOptions, 'settings' | 'ratePerSecondPerAddress'>;

export interface MetricsServerDependencies extends HttpServerDependencies {
  /** All metrics, as Prometheus reads them. */
  readonly page: () => Promise<{ readonly contentType: string; readonly text: string }>;
  readonly health: { readiness(): Readiness };
}

/**
 * For monitoring: `/metrics` (Prometheus text), `/livez` (answers as long as the event loop turns; asks nobody),
 * `/readyz` (200 or 503 with the reasons).
 */
export class MetricsServer {
  readonly #server: HttpServer;

  constructor(options: MetricsServerOptions, dependencies: MetricsServerDependencies) {
    const { page, health } = dependencies;
    this.#server = new HttpServer(
      { ...options, settings: 'metrics' },
      {
        ...dependencies,
        routes: [
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
        ],
        unknownPath: (path) =>
          new ApiError(
            404,
            'not_served',
            `there is nothing at ${quoted(path)}; served here: /metrics, /livez, /readyz`,
          ),
      },
    );
  }

  /** Expected errors: OperatorError (`configuration`) when the address cannot be used. */
  start(): Promise<void> {
    return this.#server.start();
  }

  address(): { readonly host: string; readonly port: number } {
    return this.#server.address();
  }

  close(): Promise<void> {
    return this.#server.close();
  }
}
