// What a Dockerfile may name, checked before a build: the spellings of image names and of the line that names a
// frontend.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: arguments of a Dockerfile, not of JavaScript
import { describe, expect, it } from 'vitest'
import { baseImages, findDockerfileFault, isOwnImage } from './image-references.ts'

const isName = (name: string): boolean => /^berth\/e\d+-/.test(name)
const isOurs = (reference: string): boolean => isOwnImage(reference, isName)
const fault = (source: string): string | undefined => findDockerfileFault(source, isOurs)

describe('a name of ours', () => {
  it.each([
    'berth/e1-web:7',
    'docker.io/berth/e1-web',
    'index.docker.io/berth/e1-web@sha256:12',
    'localhost/berth/e1-web:7',
    'docker-image://berth/e1-web:7',
  ])('is %s', (reference) => expect(isOurs(reference)).toBe(true))

  it.each([
    'berth/engine',
    'berth/web:1',
    'ghcr.io/berth/e1-web:7',
    'postgres:18',
    'x/berth/e1-web',
  ])('is not %s', (reference) => expect(isOurs(reference)).toBe(false))

  it.each([
    'FROM berth/e1-web:7',
    'from   --platform=linux/amd64  berth/e1-web:7 AS x',
    'FROM "berth/e1-web:7"',
    'FROM a\nCOPY --chown=1 --from=berth/e1-web:7 /a /b',
    'FROM a\nRUN --mount=type=bind,from=berth/e1-web:7,target=/x ls',
    'FROM a\nRUN --mount=from="berth/e1-web:7" ls',
  ])('is refused in %j', (source) => {
    expect(fault(source)).toMatch(/^`berth\/e1-web:7` is the name of an image that Berth built/)
  })

  it('is no matter in a comment or a command', () => {
    expect(fault('FROM a\n# FROM berth/e1-web:7\nRUN echo berth/e1-web:7')).toBeUndefined()
  })
})

describe('a frontend', () => {
  it.each([
    '# syntax=docker/dockerfile:1',
    '#syntax = docker.io/docker/dockerfile:1.7-labs',
    '\uFEFF# escape=`\n# Syntax=docker/dockerfile-upstream:master',
    'FROM a\n# syntax=other/program',
    '# a comment',
  ])('is fine in %j', (source) => expect(fault(`${source}\nFROM a\n`)).toBeUndefined())

  it.each([
    '# syntax=other/program',
    '\uFEFF#syntax=other/program',
    '# escape=`\n\n# a comment\n  #  SYNTAX  =  other/program  ',
    '// syntax=other/program',
    '#!/bin/x\n# syntax=other/program',
    '# syntax=docker/dockerfile/other',
    '# syntax=docker/dockerfilex:1',
    '# syntax=registry.example.com/docker/dockerfile:1',
  ])('is refused in %j', (source) => {
    expect(fault(`${source}\nFROM a\n`)).toMatch(/^`# syntax=.*` names another program/)
  })

  it('cannot be named in JSON', () => {
    expect(fault('{"syntax": "other/program"}')).toBe('a Dockerfile cannot begin with `{`.')
  })
})

it.each<[string, string, string[]]>([
  ['one', 'FROM node:24\nRUN true\n', ['node:24']],
  ['stages', 'FROM a AS one\nFROM b as two\nCOPY --from=ONE /x /\nFROM two\n', ['b', 'a']],
  ['an unused stage', 'FROM missing AS x\nFROM b\n', ['b']],
  ['a number', 'FROM a\nFROM b\nCOPY --from=0 /x /\n', ['b', 'a']],
  [
    'an image to copy from',
    'FROM a\nRUN --mount=type=bind,from=tools:1,target=/t x\n',
    ['a', 'tools:1'],
  ],
  ['scratch', 'FROM scratch\n', []],
  ['arguments', 'ARG TAG=24 OS\nFROM --platform=linux/amd64 "node:${TAG}-$OS"\n', ['node:24-slim']],
  ['a default', 'FROM node:${NOPE:-7}\n', ['node:7']],
  ['an unknown argument', 'FROM node:$NOPE\n', []],
  ['lines in parts', '# FROM no\nFROM \\\n  # note\n  node:24\n', ['node:24']],
  ['another escape', '# escape=`\nFROM node:24\n', []],
])('finds the base images of %s', (_name, source, images) => {
  expect(baseImages(source, { args: { OS: 'slim' }, target: null })).toEqual(images)
})

it('stops at the target', () => {
  const source = 'FROM a AS one\nFROM b AS two\n'
  expect(baseImages(source, { args: {}, target: 'one' })).toEqual(['a'])
  expect(baseImages(source, { args: {}, target: '0' })).toEqual(['a'])
  expect(baseImages(source, { args: {}, target: 'nope' })).toEqual([])
})
