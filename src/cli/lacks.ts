/** What the process may lack, how Node.js and packages report it (a code or a message), and what to do about it. */
export const lacks: readonly { readonly said: RegExp; readonly lack: string; readonly advice: string }[] = [
  {
    said: /^Code generation from strings disallowed/,
    lack: 'Node.js forbids code made at run time, which the servers of HTTP and gRPC are made of',
    advice: 'start it without --disallow-code-generation-from-strings, and look for that in NODE_OPTIONS too',
  },
  {
    said: /^ERR_ACCESS_DENIED/,
    lack: 'The permissions of Node.js forbid what the program needs',
    advice:
      'allow what is named here, or start it without --permission, and look for that in NODE_OPTIONS too',
  },
  {
    said: /^Cannot assign to read only property .* \[native code\]/,
    lack: 'Node.js forbids changes to its built-in objects, which packages make',
    advice: 'start it without --frozen-intrinsics, and look for that in NODE_OPTIONS too',
  },
  {
    said: /^ERR_DLOPEN_|^No native build was found|^(?:ERR_)?MODULE_NOT_FOUND/,
    lack: 'A package or its native part is missing, or is for another system or another Node.js',
    advice:
      'reinstall the program (npm ci, or npm install) where it runs, and start it without --no-addons and --permission',
  },
  {
    said: /\bE[MN]FILE\b|Too many open files/i,
    lack: 'The limit of open files is reached',
    advice: 'raise it (ulimit -n, or LimitNOFILE of the systemd unit); "start" says how far',
  },
];
