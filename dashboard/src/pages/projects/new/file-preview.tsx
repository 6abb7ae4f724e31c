// What the repository's .service.yml says, before a project is made for it; without the file, what could be written.
import { useMutation } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect } from 'react'
import { type api, problemOf, trpc } from '../../../api.ts'
import { CopyField } from '../../../components/copy.tsx'
import { Note, Skeleton } from '../../../components/states.tsx'
import { Cell, Row, Table } from '../../../components/table.tsx'
import { count } from '../../../format.ts'
import type { Picked } from './repository-picker.tsx'

export type Preview = Awaited<ReturnType<typeof api.forge.preview.mutate>>

interface Props {
  picked: Picked
  onRead(preview: Preview): void
}

export function FilePreview({ picked, onRead }: Props) {
  const { mutate, data, error } = useMutation(trpc.forge.preview.mutationOptions())
  const { connectionId, fullName, branch } = picked
  // biome-ignore lint/correctness/useExhaustiveDependencies: reads once for each repository
  useEffect(() => {
    mutate(
      { connection_id: connectionId, repository: fullName, branch },
      { onSuccess: (read) => onRead(read) },
    )
  }, [connectionId, fullName, branch])
  if (error) return <Note kind="warn">{problemOf(error).message}</Note>
  if (!data) return <Skeleton lines={2} />
  return (
    <div role="status">
      {data.file ? <Found preview={data} file={data.file} /> : <None preview={data} />}
    </div>
  )
}

function Found({ preview, file }: { preview: Preview; file: NonNullable<Preview['file']> }) {
  if (file.errors.length > 0) {
    return (
      <Note kind="bad">
        <p>.service.yml on {preview.branch} has errors. A deployment would fail.</p>
        <ul>
          {file.errors.map((e) => (
            <li key={`${e.line} ${e.message}`}>
              Line {e.line}: {e.message}
            </li>
          ))}
        </ul>
      </Note>
    )
  }
  return (
    <div className="stack-small">
      <p>
        .service.yml on {preview.branch}: {file.recipes.join(' and ')}
        {file.services.length > 0 && `, ${count(file.services.length, 'service')}`}
        {file.actions.length > 0 && `, ${count(file.actions.length, 'action')}`}.
      </p>
      {file.services.length > 0 && (
        <Table label="Services" head={['Service', 'From', 'Port']}>
          {file.services.map((s) => (
            <Row key={`${s.recipe} ${s.name}`}>
              <Cell of="Service">{s.name}</Cell>
              <Cell of="From" plain>
                <code>{s.from}</code>
              </Cell>
              <Cell of="Port">{s.port ?? 'none'}</Cell>
            </Row>
          ))}
        </Table>
      )}
    </div>
  )
}

function None({ preview }: { preview: Preview }) {
  return (
    <Note kind="warn">
      <p>
        There is no .service.yml on {preview.branch}. A deployment would fail until there is one.{' '}
        {preview.guess
          ? `Berth found ${preview.guess.file}: berth config init writes a file that ${preview.guess.words}.`
          : 'Write one in the repository, or let the client begin.'}
      </p>
      <CopyField label="command" text="berth config init" />
      <p>
        <Link to="/docs/service-file">Reference of .service.yml</Link>
      </p>
    </Note>
  )
}
