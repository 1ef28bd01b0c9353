import { PACKAGES, type Room } from './import-rules.ts';

export const ROOMS_PAGE = 'ARCHITECTURE.md';

/** The page with the table of each package's rooms as the rules have them, between its two marks. */
export function withRoomTables(page: string): string {
  return PACKAGES.reduce((text, { root, rooms }) => {
    const name = root.replace(/\/src\/$/, '');
    const between = new RegExp(`(<!-- rooms of ${name} -->\n)[^]*?(<!-- end -->)`);
    if (!between.test(text)) throw new Error(`${ROOMS_PAGE} has no place for the rooms of ${name}`);
    return text.replace(between, (_all, begin, end) => `${begin}${tableOf(rooms)}${end}`);
  }, page);
}

function tableOf(rooms: readonly Room[]): string {
  const rows = rooms.map((room) => `| ${titleOf(room)} | ${room.holds} | ${importsOf(room)} |\n`);
  return `| room | what is in it | may import |\n|---|---|---|\n${rows.join('')}`;
}

function titleOf({ room }: Room): string {
  return room === '' ? 'the files beside them' : `\`${room}\``;
}

function importsOf({ room, values, types = [] }: Room): string {
  const others = values.filter((value) => value !== room);
  if (others.some((value) => value instanceof RegExp && value.source === '.')) return 'everything';
  const named = [...others.map(nameOf), ...types.map((type) => `types of ${nameOf(type)}`)];
  return named.length === 0 ? 'nothing' : named.join(', ');
}

function nameOf(path: string | RegExp): string {
  return `\`${typeof path === 'string' ? path : readable(path)}\``;
}

/** A pattern as one would write it in a shell. */
function readable({ source }: RegExp): string {
  const anywhere = source.startsWith('^') ? '' : '*';
  const path = source.replace(/^\^|\$$/g, '').replace(/\[\^\/\]\+/g, '*');
  return anywhere + path.replaceAll('\\', '');
}
