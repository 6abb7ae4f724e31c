import { copyFileSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { jsonSchema } from '@berth/shared/service-file'
import { describe, expect, it } from 'vitest'
import { berth, berthInTerminal, controlCharacters, temporaryFolder } from '../../testing/berth.ts'

const fixture = (name: string) =>
  fileURLToPath(new URL(`../../../../test/fixtures/service-yml/${name}`, import.meta.url))

describe('config validate', () => {
  it('a valid file: 0, without a server and without a login', async () => {
    const cwd = temporaryFolder()
    copyFileSync(fixture('minimal-docker.yml'), join(cwd, '.service.yml'))
    const { code, stdout } = await berth(['config', 'validate'], { cwd })
    expect([code, stdout]).toEqual([0, '✓ .service.yml is valid\n'])
  })

  it('an invalid one: 2, with every problem at its place', async () => {
    const { code, stdout, stderr } = await berth(['config', 'validate', fixture('bad.yml')])
    expect([code, stderr]).toEqual([2, ''])
    expect(stdout).toContain('is not valid (6 errors)')
    expect(stdout).toContain(
      "bad.yml:6:7   unknown key 'domian' in docker.services.web; did you mean 'domain'?",
    )
  })

  it('--json is the list of problems', async () => {
    const cwd = temporaryFolder()
    copyFileSync(fixture('bad.yml'), join(cwd, '.service.yml'))
    const { code, stdout } = await berth(['config', 'validate', '--json'], { cwd })
    expect(code).toBe(2)
    const expected = JSON.parse(readFileSync(fixture('bad.expected.json'), 'utf8'))
    expect(JSON.parse(stdout)).toMatchObject(expected)
    expect(JSON.parse(stdout)[1]).toMatchObject({
      file: '.service.yml',
      end_line: 6,
      end_column: 13,
      suggestion: 'domain',
    })
    const good = await berth(['config', 'validate', fixture('both.yml'), '--json'])
    expect([good.code, good.stdout]).toEqual([0, '[]\n'])
  })

  it('warnings alone are no error', async () => {
    const { code, stdout } = await berth(['config', 'validate', fixture('legacy-result.yml')])
    expect(code).toBe(0)
    expect(stdout).toContain('warning ')
  })

  it('a terminal shows the source of each, and obeys nothing in it', async () => {
    const cwd = temporaryFolder()
    const hostile =
      'docker:\n  services:\n    web: # \u001b]0;title\u0007\u009b2J\n      domian: x\n'
    writeFileSync(join(cwd, '.service.yml'), hostile)
    const { code, stdout } = await berthInTerminal(['config', 'validate'], { cwd })
    expect(code).toBe(2)
    expect(stdout).toContain('^^^^^^')
    expect(controlCharacters(stdout)).toEqual([])
  })

  it('GitHub Actions gets annotations', async () => {
    const env = { GITHUB_ACTIONS: 'true', CI: 'true' }
    const cwd = temporaryFolder()
    copyFileSync(fixture('bad.yml'), join(cwd, 'a,b.yml'))
    const { stdout } = await berth(['config', 'validate', 'a,b.yml'], { cwd, env })
    expect(stdout).toContain("::error file=a%2Cb.yml,line=6,col=7::unknown key 'domian'")
    expect(stdout).toMatch(/::warning file=a%2Cb\.yml,line=18,col=5::/)
  })

  it('--recipe asks for that section', async () => {
    const file = fixture('minimal-docker.yml')
    expect((await berth(['config', 'validate', file, '--recipe', 'docker'])).code).toBe(0)
    const { code, stderr } = await berth(['config', 'validate', file, '--recipe', 'manual'])
    expect(code).toBe(2)
    expect(stderr).toContain("has no 'manual:' section")
  })

  it('- is stdin', async () => {
    const stdin = readFileSync(fixture('minimal-docker.yml'), 'utf8')
    expect((await berth(['config', 'validate', '-'], { stdin })).code).toBe(0)
    expect((await berth(['config', 'validate', '-'], { stdin: 'a: [' })).code).toBe(2)
  })

  it('no file: 2, and a file under a mistaken name is pointed out', async () => {
    const cwd = temporaryFolder()
    writeFileSync(join(cwd, '.service.yaml'), '')
    const { code, stderr } = await berth(['config', 'validate'], { cwd })
    expect(code).toBe(2)
    expect(stderr).toBe(
      'error: .service.yml was not found\nhint:  found .service.yaml; rename it to .service.yml\n',
    )
  })

  it('no file at all: 2, and how to get one', async () => {
    const { code, stderr } = await berth(['config', 'validate'], { cwd: temporaryFolder() })
    expect([code, stderr]).toEqual([
      2,
      'error: .service.yml was not found\nhint:  write one with: berth config init\n',
    ])
  })

  it('a link: 2, because a deployment refuses it too', async () => {
    const cwd = temporaryFolder()
    symlinkSync(fixture('minimal-docker.yml'), join(cwd, '.service.yml'))
    const { code, stderr } = await berth(['config', 'validate'], { cwd })
    expect([code, stderr]).toEqual([
      2,
      'error: .service.yml is a symbolic link; it must be a regular file\n',
    ])
  })
})

it('config schema prints the schema', async () => {
  const { code, stdout } = await berth(['config', 'schema'])
  expect(code).toBe(0)
  expect(JSON.parse(stdout)).toEqual(jsonSchema()) // what the control plane serves at /schemas
  expect(JSON.parse(stdout)).toMatchObject({ $schema: 'http://json-schema.org/draft-07/schema#' })
})
