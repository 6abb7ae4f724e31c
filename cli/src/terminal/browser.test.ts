import { expect, test } from 'vitest'
import { testIo, testSink } from '../testing/io.ts'
import { browserCommand } from './browser.ts'
import type { Io } from './io.ts'

const PAGE = 'https://deploy.example.com/device?code=WDJB-MJHT'
const at = (platform: NodeJS.Platform, env: Io['env'] = {}, isTTY = true): Io =>
  testIo({
    platform,
    env,
    stdin: {
      isTTY,
      read: async () => '',
      readLine: async () => null,
      readSecret: async () => null,
    },
    stderr: testSink({ isTTY }),
  })

test.each<[string, Io, string[] | undefined]>([
  ['macOS', at('darwin'), ['open', PAGE]],
  ['Windows', at('win32'), ['rundll32', 'url.dll,FileProtocolHandler', PAGE]],
  ['a desktop with X', at('linux', { DISPLAY: ':0' }), ['xdg-open', PAGE]],
  ['a desktop with Wayland', at('linux', { WAYLAND_DISPLAY: 'wayland-0' }), ['xdg-open', PAGE]],
  ['a server', at('linux'), undefined],
  ['over ssh', at('darwin', { SSH_CONNECTION: '10.0.0.1 22' }), undefined],
  ['a build', at('linux', { DISPLAY: ':0', CI: 'true' }), undefined],
  ['behind a pipe', at('darwin', {}, false), undefined],
])('%s', (_, io, words) => {
  expect(browserCommand(io, PAGE)).toEqual(words)
})

test.each(['file:///etc/passwd', 'javascript:alert(1)', 'vscode://x', '--help', '/device', ''])(
  '%s is no page',
  (address) => {
    expect(browserCommand(at('darwin'), address)).toBeUndefined()
  },
)

test('an address is one word, whatever stands in it', () => {
  const [, ...words] = browserCommand(at('darwin'), 'https://h.example/a b;touch x"$(id)') ?? []
  expect(words).toEqual(['https://h.example/a%20b;touch%20x%22$(id)'])
})
