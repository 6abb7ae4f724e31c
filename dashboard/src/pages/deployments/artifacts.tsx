// The files of an action, one link each. The page asks the server before the browser downloads, so a refusal appears as
// a message and never as an empty file.
import { useQuery } from '@tanstack/react-query'
import { api, change, trpc } from '../../api.ts'
import { ActButton } from '../../components/act.tsx'
import { Icon } from '../../components/icon.tsx'
import { Moment, Time, useNow } from '../../components/time.tsx'
import { bytes } from '../../format.ts'
import css from './task.module.css'

export const filesOptions = (taskId: number) => trpc.artifact.list.queryOptions({ task_id: taskId })

const useFiles = (taskId: number) => useQuery(filesOptions(taskId)).data?.artifacts ?? []

/** The files as a panel beside the log; nothing while there are none. */
export function FilesPanel({ taskId }: { taskId: number }) {
  if (useFiles(taskId).length === 0) return null
  return (
    <section className={css.panel}>
      <h2>Files</h2>
      <Artifacts taskId={taskId} />
    </section>
  )
}

export function Artifacts({ taskId }: { taskId: number }) {
  const list = useFiles(taskId)
  const now = useNow()
  if (list.length === 0) return null
  return (
    <ul className="stack-small" aria-label={`Files of task ${taskId}`}>
      {list.map((file) => {
        const isOver = Date.parse(file.expires_at) < now
        return (
          <li key={file.id} className="row">
            {isOver ? (
              <span>{file.path}</span>
            ) : (
              <ActButton small act={() => fetchFile(file.id)} label={`Download ${file.path}`}>
                <Icon name="download" /> {file.path}
              </ActButton>
            )}
            <span className="muted small">
              {bytes(file.size_bytes)}, <Time at={file.collected_at} />,{' '}
              {isOver ? 'was available until ' : 'available until '}
              <Moment at={file.expires_at} />
            </span>
          </li>
        )
      })}
    </ul>
  )
}

async function fetchFile(id: number): Promise<void> {
  const { url } = await change(api.artifact.ticket.mutate({ artifact_id: id }))
  location.assign(url)
}
