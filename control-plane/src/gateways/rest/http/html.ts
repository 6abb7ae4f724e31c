// Renders plain pages: escaped text, one inline style sheet, no script, no external resources. The policy header allows
// exactly that style sheet and nothing else.
import { createHash } from 'node:crypto'
import type { FastifyReply } from 'fastify'

const STYLE = `
:root{color-scheme:light dark;--ink:#1a2330;--soft:#5b6778;--line:#d8dee6;--paper:#fff;--tint:#f4f6f9;--link:#0b5cad}
@media (prefers-color-scheme:dark){:root{--ink:#e4e9f0;--soft:#9aa7b8;--line:#313c4a;--paper:#12171e;--tint:#1a212b;--link:#7ab7ff}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
main{max-width:62rem;margin:0 auto;padding:2rem 1.25rem 6rem}
h1{font-size:1.7rem;line-height:1.25;margin:.2em 0}h2{margin:3rem 0 .5rem}h3{margin:2rem 0 .4rem;font-size:1.05rem}
a{color:var(--link)}code,pre{font:.9em/1.5 ui-monospace,monospace}
code{background:var(--tint);padding:.1em .3em;border-radius:3px}pre{background:var(--tint);padding:.8rem 1rem;overflow-x:auto;border-radius:6px}
pre code{background:none;padding:0}
table{border-collapse:collapse;width:100%;margin:.6rem 0 1.2rem}th,td{text-align:left;vertical-align:top;padding:.35rem .8rem .35rem 0;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:600}.soft{color:var(--soft)}
section{border-top:1px solid var(--line);padding-top:.4rem;margin-top:2.2rem}
.wide{overflow-x:auto}ul.index{columns:2 22rem;column-gap:2.5rem;padding-left:1.1rem}ul.index li{break-inside:avoid}
.path,.soft code{overflow-wrap:anywhere}.verb{font-weight:700}
@media (max-width:40rem){th{display:none}tr,td{display:block}tr{border-bottom:1px solid var(--line);padding:.4rem 0}td{border:0;padding:.1rem 0}td code{overflow-wrap:anywhere}}
`
const HASH = createHash('sha256').update(STYLE).digest('base64')
const POLICY =
  `default-src 'none'; style-src 'sha256-${HASH}'; base-uri 'none'; form-action 'none'; ` +
  "frame-ancestors 'none'"

/** Markup that is already safe. */
export class Markup {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

type Part = string | number | Markup | undefined | readonly Part[]

const ENTITIES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function render(part: Part): string {
  if (part === undefined) return ''
  if (part instanceof Markup) return part.text
  if (Array.isArray(part)) return part.map(render).join('')
  return String(part).replaceAll(/[&<>"']/g, (sign) => ENTITIES[sign] ?? '')
}

/** Escapes every value that is not markup itself. */
export const html = (strings: TemplateStringsArray, ...parts: Part[]): Markup =>
  new Markup(strings.map((text, n) => text + render(parts[n])).join(''))

/** Text in backticks becomes code; everything else stays text. */
export const prose = (text: string): Markup =>
  new Markup(
    text
      .split('`')
      .map((piece, n) => (n % 2 === 1 ? html`<code>${piece}</code>` : html`${piece}`).text)
      .join(''),
  )

export function page(title: string, body: Markup): string {
  const whole = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${title}</title><style>${new Markup(STYLE)}</style></head>
<body><main>${body}</main></body></html>
`
  return whole.text
}

export const sendPage = (reply: FastifyReply, text: string): FastifyReply =>
  reply
    .type('text/html; charset=utf-8')
    .header('content-security-policy', POLICY)
    .header('x-content-type-options', 'nosniff')
    .header('referrer-policy', 'no-referrer')
    .send(text)
