/* global process */
// Loaded into a process before its own code: names that end in `.test` are looked up in the JSON file that STUBBED_NAMES
// names, read anew each time, instead of being asked of the system. Everything above the system's resolver is real.
import dns from 'node:dns';
import { readFileSync } from 'node:fs';

const { lookup } = dns.promises;

dns.promises.lookup = async (name, options) => {
  if (!name.endsWith('.test')) return lookup(name, options);
  const address = JSON.parse(readFileSync(process.env['STUBBED_NAMES'] ?? '', 'utf8'))[name];
  if (address === undefined) {
    const error = new Error(`getaddrinfo ENOTFOUND ${name}`);
    throw Object.assign(error, { code: 'ENOTFOUND', syscall: 'getaddrinfo', hostname: name });
  }
  const found = { address, family: 4 };
  return options?.all === true ? [found] : found;
};
