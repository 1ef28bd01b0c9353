/** The signs and line ends of the protocol of Redis (RESP 2), as bytes. */
export const COLON = 0x3a;
export const PLUS = 0x2b;
export const MINUS = 0x2d;
export const DOLLAR = 0x24;
export const STAR = 0x2a;
export const CR = 0x0d;
export const LF = 0x0a;
export const ZERO = 0x30;
