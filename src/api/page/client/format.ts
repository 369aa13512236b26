const counts = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const decimals = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 3 });
const times = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const days = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const DAY_SECONDS = 86_400;
/** The latest date that JavaScript can express. */
const LAST_MOMENT_MS = 8.64e15;

/** `158,000,123` */
export function count(value: number): string {
  return counts.format(value);
}

/** `1 collection`, `3 collections` */
export function many(value: number, what: string, plural = `${what}s`): string {
  return `${count(value)} ${value === 1 ? what : plural}`;
}

/** `3.14`, `1,230` */
export function amount(value: number): string {
  return value >= 1_000 ? counts.format(value) : decimals.format(value);
}

/** The two largest units: `3.2 s`, `2 min 13 s`, `12 d 4 h`; below a second in milliseconds. */
export function duration(seconds: number): string {
  if (seconds < 0.001) return '0 s';
  if (seconds < 1) return `${amount(seconds * 1_000)} ms`;
  if (seconds < 10) return `${Number.isInteger(seconds) ? seconds : seconds.toFixed(1)} s`;
  const whole = Math.floor(seconds);
  const units: [number, string][] = [
    [Math.floor(whole / DAY_SECONDS), 'd'],
    [Math.floor((whole % DAY_SECONDS) / 3_600), 'h'],
    [Math.floor((whole % 3_600) / 60), 'min'],
    [whole % 60, 's'],
  ];
  const first = units.findIndex(([value]) => value > 0);
  return units
    .slice(first, first + 2)
    .filter(([value]) => value > 0)
    .map(([value, unit]) => `${count(value)} ${unit}`)
    .join(' ');
}

/** Like `duration`, for what is counted in seconds on the page: `under 1 s`, `3 s`, `2 min 13 s`. */
export function age(seconds: number): string {
  return seconds < 1 ? 'under 1 s' : duration(Math.floor(seconds));
}

/** `62.4 %`; 0 and 100 only if exact. */
export function percent(share: number): string {
  const value = share * 100;
  if (value > 0 && value < 0.1) return 'under 0.1 %';
  if (value < 100 && value > 99.9) return 'over 99.9 %';
  return `${value.toFixed(value === 0 || value === 100 ? 0 : 1)} %`;
}

/** The time of day in the reader's time zone. */
export function timeOf(date: Date): string {
  return times.format(date);
}

/** A future or past moment: the time, and the day if it is not today. */
export function momentIn(seconds: number): string {
  const date = new Date(Math.min(LAST_MOMENT_MS, Date.now() + seconds * 1_000));
  return Math.abs(seconds) < DAY_SECONDS / 2 ? timeOf(date) : days.format(date);
}

/** A range of heights. */
export function heights(from: number, to: number): string {
  return from === to ? `Height ${count(from)}` : `Heights ${count(from)} to ${count(to)}`;
}

/** Digits of an id that distinguish it on a page. */
const ID_DIGITS = 10;

/** A message of the daemon as a sentence. Ids are shortened: `/status` has them in full. */
export function sentence(text: string): string {
  const short = text.trim().replaceAll(/\b[0-9a-f]{64}\b/g, (id) => `${id.slice(0, ID_DIGITS)}…`);
  // Names keep their small first letter.
  const begun = /^[a-z]+\b(?![_./:])/.test(short) ? short.charAt(0).toUpperCase() + short.slice(1) : short;
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
