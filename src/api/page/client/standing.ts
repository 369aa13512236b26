import type { Codes, View } from './types.js';

/** The state of the daemon in a word or two. */
export interface Standing {
  readonly look: 'ok' | 'busy' | 'bad' | 'unknown';
  readonly words: string;
}

export function standingOf({ status, trouble }: View, codes: Codes): Standing {
  if (trouble?.wantsToken === true) return { look: 'unknown', words: 'Token wanted' };
  if (trouble !== undefined) return { look: 'bad', words: trouble.isRefusal ? 'No status' : 'No answer' };
  if (status === undefined) return { look: 'unknown', words: 'Connecting' };
  if (status.ready) return { look: 'ok', words: 'Ready' };
  const names = status.reasons.map(({ code }) => code);
  if (names.includes('stopping')) return { look: 'busy', words: 'Stopping' };
  if (names.some((name) => codes[name]?.severity !== 'ordinary')) return { look: 'bad', words: 'Not ready' };
  return { look: 'busy', words: names.includes('behind') ? 'Catching up' : 'Starting' };
}

const COLOURS = { ok: '#1a7f4b', busy: '#1f6feb', bad: '#c62f2f', unknown: '#7a8592' } as const;

/** Shows it in the tab's title and icon. */
export function updateTab({ look, words }: Standing, network: string | undefined): void {
  const name = network === undefined ? 'Flow collection indexer' : `${network}: Flow collection indexer`;
  document.title = `${words}: ${name}`;
  const dot = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="7" fill="${COLOURS[look]}"/></svg>`;
  const icon = document.querySelector<HTMLLinkElement>('link[rel=icon]');
  const href = `data:image/svg+xml,${encodeURIComponent(dot)}`;
  if (icon !== null && icon.href !== href) icon.href = href;
}
