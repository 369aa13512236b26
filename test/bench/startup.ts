// How long the program takes to answer what needs no daemon, cold: npx tsx test/bench/startup.ts, after a build.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

const ROUNDS = 15;
const program = join(import.meta.dirname, '../../dist/main.js');

function medianMs(args: readonly string[]): number {
  const times = Array.from({ length: ROUNDS }, () => {
    const beganAtMs = performance.now();
    spawnSync(process.execPath, [...args], { stdio: 'ignore' });
    return performance.now() - beganAtMs;
  });
  return times.sort((left, right) => left - right)[Math.floor(ROUNDS / 2)] ?? NaN;
}

const commands = [['--version'], ['--help'], ['start', '--help'], ['completion', 'bash']];
process.stdout.write(`Node.js alone: ${medianMs(['-e', '0']).toFixed(0)} ms\n`);
for (const args of commands) {
  process.stdout.write(`${args.join(' ')}: ${medianMs([program, ...args]).toFixed(0)} ms\n`);
}
