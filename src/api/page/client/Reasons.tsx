import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import { TOKEN, type Codes, type Status, type View } from './daemon.js';
import { age, many, sentence, timeOf } from './format.js';

/** The daemon gives no status: since when and why, or that it wants a token. `onToken` is called once one is kept. */
export function NoAnswer({
  view: { trouble, status },
  onToken,
}: {
  readonly view: View;
  readonly onToken: () => void;
}): VNode | null {
  const [text, setText] = useState('');
  if (trouble === undefined) return null;
  const { since, kind, message } = trouble;
  const last = status === undefined ? '' : 'Below is the last known status.';
  const notice = (look: string, what: string, then: string): VNode => (
    <section class={`notice ${look}`} aria-label="No answer">
      <p role="alert">
        <strong>{what}</strong> {message}
      </p>
      <p>{then}</p>
    </section>
  );
  if (kind !== 'token') {
    const lacks = kind === 'refused' ? 'given its status' : 'answered';
    const then = `The page asks again, and continues once there is an answer. ${last}`;
    return notice('bad', `The daemon has not ${lacks} since ${timeOf(since)}.`, then);
  }
  const onSubmit = (event: Event): void => {
    event.preventDefault();
    const token = text.trim();
    if (token === '') return;
    setText('');
    sessionStorage.setItem(TOKEN, token);
    onToken();
  };
  return (
    <>
      {notice('busy', 'This daemon shows its status only to callers with a bearer token.', last)}
      <section class="search" aria-label="Token">
        <form onSubmit={onSubmit}>
          <label for="token">Bearer token, kept until this tab is closed</label>
          <div class="field">
            <input
              id="token"
              type="password"
              value={text}
              onInput={({ currentTarget }) => setText(currentTarget.value)}
              autocomplete="off"
            />
            <button type="submit">Use it</button>
          </div>
        </form>
      </section>
    </>
  );
}

/** Why the daemon is not ready: each reason with its age, and what to do. */
export function Reasons({ status, codes }: { readonly status: Status; readonly codes: Codes }): VNode | null {
  const { ready, reasons } = status;
  if (ready || reasons.length === 0) return null;
  const isTrouble = ({ code }: { readonly code: string }): boolean => codes[code]?.severity !== 'ordinary';
  const troublesFirst = [...reasons.filter(isTrouble), ...reasons.filter((reason) => !isTrouble(reason))];
  return notice(
    reasons.some(isTrouble) ? 'bad' : 'busy',
    'Why it is not ready',
    troublesFirst.map(({ code, message, sinceSeconds }) => {
      // In bold the cause, then, after the first colon, the details.
      const [what = '', ...why] = sentence(message).split(': ');
      return (
        <li key={code}>
          <p>
            <code class="tag">{code}</code> <strong>{why.length === 0 ? what : `${what}:`}</strong>{' '}
            {why.join(': ')} <span class="nowrap">For {age(sinceSeconds)}.</span>
          </p>
          <p class="fix">{withCode(codes[code]?.fix ?? '')}</p>
        </li>
      );
    }),
  );
}

/** Outputs of the daemon that take no lines of its log. Nothing else is wrong. */
export function LogTroubles({ status: { log } }: { readonly status: Status }): VNode | null {
  if (log.length === 0) return null;
  return notice(
    'busy',
    'The log',
    log.map(({ output, reason, lostLines, ageSeconds }) => (
      <li key={output}>
        <strong>The log cannot be written to {output}:</strong> {sentence(reason)}{' '}
        {lostLines === 0 ? 'Nothing is lost yet.' : `${many(lostLines, 'line')} lost.`}{' '}
        <span class="nowrap">For {age(ageSeconds)}.</span>
      </li>
    )),
  );
}

function notice(look: string, label: string, items: ComponentChildren): VNode {
  return (
    <section class={`notice ${look}`} aria-label={label}>
      <ul class="reasons">{items}</ul>
    </section>
  );
}

/** Text with `code` between backticks. */
function withCode(text: string): readonly (VNode | string)[] {
  return text.split('`').map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part));
}
