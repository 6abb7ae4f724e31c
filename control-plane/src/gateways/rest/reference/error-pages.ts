// One page per error code: its meaning and what to do next. The compiler requires a text for every code.
import { ERRORS, type ErrorCode } from '@berth/shared'
import { html, page, prose } from '../http/html.ts'
import { ERROR_TEXTS } from './messages.ts'

export function serializeErrorPage(code: ErrorCode, baseUrl: string): string {
  const [status, title] = ERRORS[code]
  const { means, next } = ERROR_TEXTS[code]
  return page(
    `${code} · Berth`,
    html`<p class="soft">Error <code>${code}</code>, HTTP status ${status}</p>
<h1>${title}</h1>
<h2>What it means</h2><p>${prose(means)}</p>
<h2>What to do next</h2><p>${prose(next)}</p>
<p class="soft">Programs switch on <code>code</code>, which never changes its meaning; <code>detail</code> in the answer
says what was refused this time, and <code>request_id</code> finds it in the log of the control plane.
<a href="${baseUrl}/api/docs">All operations</a></p>`,
  )
}

/** Every code, in the order of its status. */
export function serializeErrorIndex(): string {
  const codes = Object.entries(ERRORS).toSorted(([, [a]], [, [b]]) => a - b)
  return page(
    'Errors · Berth',
    html`<h1>Errors</h1>
<p class="soft">Every refusal has a <code>code</code>. Its page says what it means and what to do next.</p>
<table><thead><tr><th>Code</th><th>Status</th><th>Meaning</th></tr></thead><tbody>${codes.map(
      ([code, [status, title]]) =>
        html`<tr><td><a href="/docs/errors/${code}"><code>${code}</code></a></td><td>${status}</td><td>${title}</td></tr>`,
    )}</tbody></table>`,
  )
}
