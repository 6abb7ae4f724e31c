// Text of programs without what only a terminal obeys. PURE.

// CSI (colours, cursor), OSC up to BEL or ST, two-character escapes; lone control characters except tab and line ends
const ESCAPES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is removed
  /\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -~]|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g

export const stripEscapes = (text: string): string => text.replaceAll(ESCAPES, '')
