// What a browser shows where no application answers: small, neutral, light or dark as the browser prefers, nothing
// loaded from elsewhere; plain text for programs. PURE. Pages are public, so they name no owner, path or reason.
import { PROXY } from '../../limits/proxy.ts'
import type { PageName } from '../protocol.ts'

export type Page = PageName | 'unknown' | 'files'

interface Words {
  status: number
  title: string
  text: string
  retries: boolean
}

const WORDS: Record<Page, Words> = {
  unknown: {
    status: 404,
    title: 'Nothing here',
    text: 'There is no environment at this address. It may have been removed, or the address has a typing mistake.',
    retries: false,
  },
  deploying: {
    status: 503,
    title: 'On its way',
    text: 'The first deployment of this environment is running. This page tries again by itself.',
    retries: true,
  },
  failed: {
    status: 503,
    title: 'Not deployed',
    text: 'The last deployment of this environment failed, and no earlier version runs. Its log says why.',
    retries: false,
  },
  stopped: {
    status: 503,
    title: 'Not running',
    text: 'Nothing of this environment runs at the moment. Its application may have ended or may be starting.',
    retries: true,
  },
  off: {
    status: 503,
    title: 'Stopped',
    text: 'This application was stopped. It answers again after a member of its project starts or deploys it.',
    retries: false,
  },
  files: {
    status: 501,
    title: 'Caddy is missing',
    text: 'Folders of files are served by Caddy, which is not installed on this machine.',
    retries: false,
  },
}

const STYLE = `:root{color-scheme:light dark}
body{margin:0;min-height:100vh;display:grid;place-items:center;font:16px/1.5 system-ui,sans-serif;background:Canvas;color:CanvasText}
main{max-width:32rem;padding:2rem}
h1{font-size:1.5rem;margin:0 0 .5rem}
p{margin:0;opacity:.75}`

const html = (title: string, text: string, again: number | null): string =>
  `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">${again ? `<meta http-equiv="refresh" content="${again}">` : ''}
<title>${title}</title><style>${STYLE}</style></head>
<body><main><h1>${title}</h1><p>${text}</p></main></body></html>
`

const plain = (title: string, text: string): string => `${title}. ${text}\n`

interface RenderedPage {
  status: number
  headers: Record<string, string>
  body: string
}

/** HTML for clients that accept it, otherwise text. */
export function renderPage(page: Page, accept: string): RenderedPage {
  const { status, title, text, retries } = WORDS[page]
  const isHtml = /text\/html/i.test(accept)
  const again = retries ? PROXY.retryAfterSeconds : null
  return {
    status,
    headers: {
      'content-type': `${isHtml ? 'text/html' : 'text/plain'}; charset=utf-8`,
      'cache-control': 'no-store',
      'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
      ...(status === 503 ? { 'retry-after': String(PROXY.retryAfterSeconds) } : {}),
    },
    body: isHtml ? html(title, text, again) : plain(title, text),
  }
}

/** Part of Caddy's configuration; shown when neither the application nor the edge answers. */
export function errorPage(): { html: string; text: string } {
  const title = 'No answer'
  const text = 'The application of this environment does not answer at the moment.'
  return { html: html(title, text, PROXY.retryAfterSeconds), text: plain(title, text) }
}
