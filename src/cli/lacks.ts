/** What the process may lack, as Node.js and its packages say it in a code or in words, and what to do about it. */
export const lacks: readonly { readonly said: RegExp; readonly lack: string; readonly advice: string }[] = [
  {
    said: /^Code generation from strings disallowed/,
    lack: 'Node.js forbids code made at run time, which the servers of HTTP and gRPC are made of',
    advice: 'start it without --disallow-code-generation-from-strings, and look for that in NODE_OPTIONS too',
  },
  {
    said: /^ERR_DLOPEN_|^No native build was found|^(?:ERR_)?MODULE_NOT_FOUND/,
    lack: 'A package or its native part is missing, or is for another system or another Node.js',
    advice:
      'install the program anew (npm ci, or npm install) where it runs, and start it without --no-addons',
  },
  {
    said: /^ERR_WORKER_INIT_FAILED/,
    lack: 'No more threads may be started',
    advice: 'raise their limit to 64 at least (ulimit -u, TasksMax of the unit, the pids of the container)',
  },
  {
    said: /\bE[MN]FILE\b|Too many open files/i,
    lack: 'No more files may be open',
    advice: 'raise their limit (ulimit -n, or LimitNOFILE of the systemd unit); "start" says how far',
  },
];
