import { describe, expect, it } from 'vitest';
import { eventually, scratchDirectory } from '../support/program.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';

interface CpuProfile {
  readonly nodes: readonly { readonly callFrame: { readonly functionName: string } }[];
  readonly samples: readonly number[];
  readonly startTime: number;
  readonly endTime: number;
}

async function daemonWith(...flags: readonly string[]) {
  const devnet = await devnetForTest({ seed: 6, startHead: 20, paused: true });
  const daemon = await startDaemon(
    startArguments(devnet, scratchDirectory(), '--start-height', '0', ...flags),
  );
  const ask = async (path: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${daemon.metricsUrl}${path}`, { headers });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  return { daemon, ask };
}

describe('/debug', () => {
  it('gives a CPU profile of either thread, and what its heap holds', async () => {
    const { ask, daemon } = await daemonWith('--debug-profile');
    const profiles = await Promise.all([
      ask('/debug/profile?seconds=1'),
      ask('/debug/profile?seconds=1&thread=reader'),
    ]);
    for (const { body, status } of profiles) {
      expect(status).toBe(200);
      const { endTime, nodes, samples, startTime } = body as unknown as CpuProfile;
      expect(nodes.map(({ callFrame }) => callFrame.functionName)).toContain('(root)');
      expect(samples.length).toBeGreaterThan(0);
      // Microseconds.
      expect(endTime - startTime).toBeGreaterThan(900_000);
    }
    for (const thread of ['main', 'reader']) {
      const { body, status } = await ask(`/debug/heap?thread=${thread}`);
      expect(status).toBe(200);
      expect(body).toMatchObject({ heap: { used_heap_size: expect.any(Number) as number } });
    }
    // The reader's heap is limited to 1 GiB.
    const limits = await Promise.all(
      ['main', 'reader'].map(async (thread) => ask(`/debug/heap?thread=${thread}`)),
    );
    const [main, reader] = limits.map(
      ({ body }) => (body['heap'] as { heap_size_limit: number }).heap_size_limit,
    );
    expect(reader).not.toBe(main);

    const first = ask('/debug/profile?seconds=5');
    const second = await eventually(async () => {
      const answer = await ask('/debug/profile?seconds=1');
      return answer.status === 503 ? answer : undefined;
    });
    expect(second.body).toMatchObject({ reason: 'busy' });
    expect((await first).status).toBe(200);
    // One that is being taken keeps nobody from stopping.
    const cut = ask('/debug/profile?seconds=30').catch(() => undefined);
    expect(await daemon.program.stop('SIGTERM')).toBe(0);
    await cut;
  });

  it('answers nobody but callers on this machine, and only what it knows', async () => {
    const { ask } = await daemonWith('--debug-profile', '--metrics-host', '0.0.0.0');
    for (const headers of [{ 'x-forwarded-for': '192.0.2.1' }, { via: '1.1 proxy' }]) {
      expect(await ask('/debug/heap', headers)).toMatchObject({
        status: 403,
        body: { reason: 'local_only' },
      });
      expect(await ask('/debug/profile?seconds=1', headers)).toMatchObject({ status: 403 });
    }
    for (const query of ['seconds=0', 'seconds=31', 'seconds=x', 'thread=other'])
      expect(await ask(`/debug/profile?${query}`)).toMatchObject({ status: 400 });
  });

  it('is not there unless it is switched on', async () => {
    const { ask } = await daemonWith();
    expect(await ask('/debug/profile')).toMatchObject({ status: 404, body: { reason: 'not_served' } });
    expect(await ask('/debug/heap')).toMatchObject({ status: 404 });
  });
});
