// Logs the given number of lines and exits without waiting for anything.
import { createLogger, loadPrettyLine } from '../../src/observability/index.js';

const [format, lines] = process.argv.slice(2);
const toLine = (await loadPrettyLine()).prettyLine({ colorize: false });
const logger = createLogger({ level: 'info', toLine: format === 'pretty' ? toLine : undefined });
for (let line = 0; line < Number(lines); line += 1)
  logger.info({ line, padding: 'x'.repeat(100) }, 'chatter');
process.exit(0);
