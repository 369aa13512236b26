export const actions = ['subscribe', 'unsubscribe', 'list_subscriptions'] as const;
export type Action = (typeof actions)[number];
