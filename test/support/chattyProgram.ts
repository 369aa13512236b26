// Logs the given number of lines at once, and ends when they are written.
import { createLogger, loadPrettyLine } from '../../src/observability/index.js';
import { openSink, Output } from '../../src/runtime/index.js';

const [format, lines] = process.argv.slice(2);
const toLine = (await loadPrettyLine()).prettyLine({ colorize: false });
const destination = new Output({ name: 'standard output' }, { sink: openSink(1) });
const logger = createLogger({ level: 'info', toLine: format === 'pretty' ? toLine : undefined, destination });
for (let line = 0; line < Number(lines); line += 1)
  logger.info({ line, padding: 'x'.repeat(100) }, 'chatter');
await destination.put();
process.exit(0);
