export const floors: readonly (readonly string[])[];
export const rooms: readonly string[];
export const nestedRooms: readonly string[];
export function roomsBelow(room: string): readonly string[];
export function partsOf(
  room: string,
): readonly { readonly name: string; readonly isFile: boolean; readonly below: readonly string[] }[];
export function isFile(name: string): boolean;
export function forbiddenPackages(
  room: string,
): readonly { readonly name: string; readonly message: string }[];

/** The most lines of each room, by path. */
export const maxLines: Readonly<Record<string, number>>;
