// Sessions on a server with a real sshd: what each verb does, and how sessions end.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { missing } from '../components.ts'
import { isRoot } from './agent-host.ts'
import { SshLab } from './ssh-lab.ts'

const SECRET = 'tr0ub4dor-and-3'
const MANUAL = `
manual:
  deploy:
    - run: 'true'
  services:
    web:
      run: |
        echo "the token is $TOKEN"
        exec sleep 1000
`
const argvOf = (...argv: string[]): string => Buffer.from(JSON.stringify(argv)).toString('base64url')

describe.skipIf(missing('sshd') || !isRoot)('sessions', () => {
  let lab: SshLab
  beforeAll(async () => {
    lab = await SshLab.open()
    const repository = lab.host.repository()
    repository.commit({ '.service.yml': MANUAL, 'hello.txt': 'hello\n' })
    const deployed = await lab.host.deploy(repository, { variables: { TOKEN: SECRET } })
    console.log((await deployed.verdict()).message, lab.state)
  })
  afterAll(() => lab.close())

  test('logs', async () => {
    const r = await lab.login({ certificate: await lab.honest() })
    console.log(r)
    expect(r.code).toBe(0)
  })
  test('exec', async () => {
    const t = performance.now()
    const r = await lab.login({ certificate: await lab.shell(), account: 'berth-shell', words: ['exec', '-', argvOf('sh', '-c', 'pwd; id; cat hello.txt; echo "$TOKEN"; exit 7')] })
    console.log(r, performance.now() - t)
    expect(r.code).toBe(7)
  })
})
