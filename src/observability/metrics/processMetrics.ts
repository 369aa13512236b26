import { collectDefaultMetrics, Registry } from 'prom-client';

/**
 * The metrics of prom-client that we use. Left out: gauges whose names end in `_total`, which Prometheus reserves
 * for counters, and the lists of handles and requests, which use private parts of Node.js;
 * `nodejs_active_resources` shows the same through the public API.
 */
const processMetrics = [
  'process_cpu_user_seconds_total',
  'process_cpu_system_seconds_total',
  'process_cpu_seconds_total',
  'process_start_time_seconds',
  'process_open_fds',
  'process_max_fds',
  'process_resident_memory_bytes',
  'process_virtual_memory_bytes',
  'process_heap_bytes',
  'nodejs_eventloop_lag_seconds',
  'nodejs_eventloop_lag_min_seconds',
  'nodejs_eventloop_lag_max_seconds',
  'nodejs_eventloop_lag_mean_seconds',
  'nodejs_eventloop_lag_stddev_seconds',
  'nodejs_eventloop_lag_p50_seconds',
  'nodejs_eventloop_lag_p90_seconds',
  'nodejs_eventloop_lag_p99_seconds',
  'nodejs_heap_size_total_bytes',
  'nodejs_heap_size_used_bytes',
  'nodejs_external_memory_bytes',
  'nodejs_heap_space_size_total_bytes',
  'nodejs_heap_space_size_used_bytes',
  'nodejs_heap_space_size_available_bytes',
  'nodejs_version_info',
  'nodejs_gc_duration_seconds',
  'nodejs_active_resources',
];

/** The metrics of a Node.js process. Some exist on some platforms only. */
export function registerProcessMetrics(registry: Registry): void {
  const defaults = new Registry();
  collectDefaultMetrics({ register: defaults });
  for (const name of processMetrics) {
    const metric = defaults.getSingleMetric(name);
    if (metric !== undefined) registry.registerMetric(metric);
  }
}
