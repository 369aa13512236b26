const SECONDS_PER_MINUTE = 60;
const SECONDS_PER_HOUR = 3600;
const SECONDS_PER_DAY = 86_400;

/** The two largest units of a duration: `13s`, `2m 13s`, `1h 33m`, `12d 4h`. Rounds down; negatives become 0. */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < SECONDS_PER_MINUTE) return `${whole}s`;
  if (whole < SECONDS_PER_HOUR) {
    return `${Math.floor(whole / SECONDS_PER_MINUTE)}m ${whole % SECONDS_PER_MINUTE}s`;
  }
  if (whole < SECONDS_PER_DAY) {
    const minutes = Math.floor((whole % SECONDS_PER_HOUR) / SECONDS_PER_MINUTE);
    return `${Math.floor(whole / SECONDS_PER_HOUR)}h ${minutes}m`;
  }
  const hours = Math.floor((whole % SECONDS_PER_DAY) / SECONDS_PER_HOUR);
  return `${formatCount(Math.floor(whole / SECONDS_PER_DAY))}d ${hours}h`;
}

/** A whole number with thousands separators: `158,000,123`. */
export function formatCount(count: number): string {
  return String(Math.trunc(count)).replace(/\B(?=(?:\d{3})+$)/g, ',');
}

/** Heights per second, with as many digits as matter: `0.82/s`, `19.4/s`, `1,234/s`. */
export function formatRate(perSecond: number): string {
  if (perSecond < 10) return `${perSecond.toFixed(2)}/s`;
  if (perSecond < 1000) return `${perSecond.toFixed(1)}/s`;
  return `${formatCount(Math.round(perSecond))}/s`;
}
