import { describe, expect, it } from 'vitest'
import { berth, berthInTerminal, controlCharacters, startInTerminal } from '../../testing/berth.ts'
import { startInstallation } from '../../testing/installation.ts'
import type { Scripted } from '../../testing/peer.ts'
import { environment, failedTask, logLine, phase, step, task } from '../../testing/samples.ts'

const ARGS = ['deploy', '-p', 'shop', '-e', 'pr-42', '--wait']
const ESC = '\u001b'
/** Colours and the redrawing of the block (up, erase). Everything else is hostile. */
const OURS = new RegExp(`${ESC}\\[[0-9;]*m|${ESC}\\[\\d+A\r${ESC}\\[J`, 'g')
const HOSTILE =
  `${ESC}]52;c;ZXZpbA==\u0007${ESC}]0;title\u0007${ESC}[2J${ESC}[H` +
  `\u009b31m${ESC}]8;;https://evil\u0007`

async function installation(...states: Scripted[]) {
  const it = await startInstallation()
  it.peer.script('POST /api/environments/101/tasks', { status: 201, json: task('queued') })
  it.peer.script('GET /api/tasks/813', ...states)
  return it
}

const building = (message: string) =>
  task('running', {
    phases: [
      phase('checkout', 'succeeded'),
      phase('build', 'running', { steps: [step('web', 'running', { message })] }),
      phase('release', 'pending'),
    ],
  })

describe('on a terminal', () => {
  it('phases live, then the result and the addresses', async () => {
    const { peer, env } = await installation({ json: building('#11 RUN npm run build') })
    const running = startInTerminal(ARGS, { env })
    await running.shows(/#11 RUN npm run build/)
    const done = ['checkout', 'build'].map((name) => phase(name, 'succeeded'))
    peer.script('GET /api/tasks/813', { json: task('succeeded', { phases: done }) })
    const { code, stdout } = await running.ended
    expect(code).toBe(0)
    const text = stdout.replace(OURS, '')
    expect(text).toContain('Task 813  shop / pr-42  checkout-v2 @ c136499 "Fix totals"')
    expect(text).toContain('· Release')
    expect(text).toContain('✓ Check out 1.8s  ✓ Build 1.8s')
    expect(text).toContain('✓ Deployed in 1m18s\r\n  web   https://pr-42.shop.example.com')
    expect(text).not.toContain(ESC)
    expect(stdout).toMatch(new RegExp(`${ESC}\\[\\d+A\r${ESC}\\[J`)) // it was redrawn
  })

  it('failed: 3, with the lines and the sentence about the version before', async () => {
    const { peer, env } = await installation({ json: failedTask() })
    peer.script('GET /api/tasks/813/log', {
      text: `${logLine(396, 'src/cart.ts(14,7): error')}\n`,
      headers: { 'content-type': 'application/x-ndjson' },
    })
    const { code, stdout } = await berthInTerminal(ARGS, { env })
    expect(code).toBe(3)
    const text = stdout.replace(OURS, '')
    expect(text).toContain('✗ Deployment failed in "Build image web" (exit code 1) after 1m18s')
    expect(text).toContain('396 │ src/cart.ts(14,7): error')
    expect(text).toContain('The version deployed before keeps running.')
  })

  it('Ctrl-C: 130', async () => {
    const { env } = await installation({ json: building('x') })
    const running = startInTerminal(ARGS, { env })
    await running.shows(/Release/)
    running.interrupt()
    const { code, stdout } = await running.ended
    expect(code).toBe(130)
    expect(stdout).toContain(
      'the deployment continues; resume: berth deploy -p shop -e pr-42 --attach',
    )
  })

  it('hostile names, titles, messages and log lines: nothing but colours passes', async () => {
    const { peer, env } = await installation({ json: building(`run${HOSTILE}`) })
    const failure = { ...failedTask().failure, step_title: `Build${HOSTILE}` }
    const failed = failedTask({ failure, warnings: [{ code: 'x', message: HOSTILE, step: null }] })
    const services = [{ name: `web${HOSTILE}`, url: `https://x${HOSTILE}`, status: 'running' }]
    peer.script('GET /api/environments/101', { json: environment({ services }) })
    peer.script('GET /api/tasks/813/log', {
      text: `${logLine(1, `${HOSTILE}${ESC}[31mred`)}\n`,
      headers: { 'content-type': 'application/x-ndjson' },
    })
    const running = startInTerminal(ARGS, { env })
    await running.shows(/Release/)
    peer.script('GET /api/tasks/813', { json: { ...failed, commit_message: HOSTILE } })
    const { code, stdout } = await running.ended
    expect(code).toBe(3)
    expect(stdout).toContain(`${ESC}[31mred${ESC}[0m`)
    const rest = stdout.replace(OURS, '').replace(/[\r\n]/g, '')
    expect(rest).not.toMatch(/\p{Cc}/u)
    expect(rest).not.toContain('evil')
  })
})

describe('no escape byte on either stream', () => {
  const terminal = [
    ['NO_COLOR', { NO_COLOR: '1' }, []],
    ['TERM=dumb', { TERM: 'dumb' }, []],
    ['CI=true', { CI: 'true' }, []],
    ['CLICOLOR=0', { CLICOLOR: '0' }, []],
    ['--no-color', {}, ['--no-color']],
  ] as const
  const colourful = `${logLine(1, `${HOSTILE}${ESC}[31mred`)}\n`

  async function failing() {
    const it = await installation({ json: building(HOSTILE) }, { json: failedTask() })
    const headers = { 'content-type': 'application/x-ndjson' }
    it.peer.script('GET /api/tasks/813/log', { text: colourful, headers })
    return it
  }

  it.each(terminal)('on a terminal with %s', async (_, more, flags) => {
    const { env } = await failing()
    const { code, stdout } = await berthInTerminal([...ARGS, ...flags], {
      env: { ...env, ...more },
    })
    expect(code).toBe(3)
    expect(stdout).toContain('│ red')
    expect(controlCharacters(stdout)).toEqual([])
  })

  it('in a pipe', async () => {
    const { env } = await failing()
    const { code, stdout, stderr } = await berth(ARGS, { env })
    expect(code).toBe(3)
    expect(stderr).toContain('│ red')
    expect(controlCharacters(stdout + stderr)).toEqual([])
  })
})
