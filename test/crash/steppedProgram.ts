// The daemon, or the rewind command, that dies at a named step: the real composition over stepped ports. It takes the
// settings and the plan as JSON in its arguments; test/crash/run.ts starts it.
import { exitCodeOf, rewindStore, runDaemon } from '../../src/app/index.js';
import { loadConfig } from '../../src/config/index.js';
import { steppedChannel, steppedLogger, steppedStore } from './steppedPorts.js';
import { Steps, type CrashPlan } from './Steps.js';

const [command = '', settings = '{}', planText = '{}'] = process.argv.slice(2);
const plan = JSON.parse(planText) as CrashPlan;
const flags = new Map(Object.entries(JSON.parse(settings) as Record<string, string[]>));
const { config } = loadConfig({ file: undefined, environment: {}, flags }, { isTerminal: false });

const steps = new Steps(plan, command === 'rewind' ? command : 'anew');
const openStore = steppedStore(steps);

if (command === 'rewind') {
  await rewindStore(config, Number(process.argv[5]), { openStore });
} else {
  const stop = new AbortController();
  steps.onStop = () => stop.abort();
  // The log goes there too.
  const stdout = { write: (text: string) => void process.stdout.write(text), columns: 80 };
  const host = { stdout, isLive: false, signal: stop.signal };
  const ports = { openStore, openChannel: steppedChannel(steps), createLogger: steppedLogger(steps) };
  process.exitCode = exitCodeOf(await runDaemon(config, host, ports));
}
