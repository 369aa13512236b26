import { fromRoot } from './root.js';
import { ownHeaders } from './token.js';

/** Calls back with the name and data of each event of `/events`, and once at the end. `close` ends it. */
export function openEvents(
  onEvent: (name: string, data: string) => void,
  onEnd: () => void,
): { close(): void } {
  // The browser's own EventSource cannot send a token.
  const cut = new AbortController();
  const read = async (): Promise<void> => {
    const { body, ok } = await fetch(fromRoot('events'), { headers: ownHeaders(), signal: cut.signal });
    if (!ok || body === null) return;
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = (text + value).split('\n\n');
      text = events.pop() ?? '';
      for (const event of events) onEvent(fieldOf(event, 'event'), fieldOf(event, 'data'));
    }
  };
  void read()
    .catch(() => undefined)
    .then(onEnd);
  return { close: () => cut.abort() };
}

/** Our events have each field on one line. */
function fieldOf(event: string, name: string): string {
  const line = event.split('\n').find((each) => each.startsWith(`${name}: `));
  return line?.slice(name.length + 2) ?? '';
}
