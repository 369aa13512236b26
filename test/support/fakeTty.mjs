/* global process */
// Loaded into a process before its own code: its standard input and output, pipes in truth, pass for a terminal of
// TTY_COLUMNS and TTY_ROWS. What is written stays what it is; that keys are asked for one by one, and no longer, stands on
// standard error.
const { stdin, stdout, stderr } = process;

stdout.isTTY = true;
stdout.columns = Number(process.env['TTY_COLUMNS']);
stdout.rows = Number(process.env['TTY_ROWS']);
stdin.isTTY = true;
stdin.setRawMode = (isRaw) => {
  stderr.write(isRaw ? 'keys one by one\n' : 'keys by the line\n');
  return stdin;
};
