"""Departments group workspaces. A department with workspaces cannot be deleted."""

from msgspec import Struct, structs

from stoker.domain.access.identity import Department
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor
from stoker.domain.errors import ErrorCode, StokerError, already_exists, not_found
from stoker.domain.names import check_slug
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.services.context import Context, authorise, record_audit
from stoker.services.idempotency import IdempotencyKey, idempotent
from stoker.store.db.base import Transaction
from stoker.store.identity import departments
from stoker.store.sql import sequences


class CreateDepartmentInput(Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""


class DepartmentService:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def list_departments(self, actor: Actor, text: str, window: PageRequest) -> PageResult[Department]:
        authorise(actor, Action.DEPARTMENT_READ)
        return await self._context.store.read(lambda tx: departments.list_departments(tx, text, window))

    async def read(self, actor: Actor, name: str) -> Department:
        authorise(actor, Action.DEPARTMENT_READ)
        return await self._context.store.read_inline(lambda tx: _get_department(tx, name))

    async def create(self, actor: Actor, new: CreateDepartmentInput, once: IdempotencyKey | None = None) -> Department:
        authorise(actor, Action.DEPARTMENT_CREATE)
        check_slug(new.name, "name")

        def change(transaction: Transaction) -> Department:
            if departments.find(transaction, new.name):
                raise already_exists("department", new.name)
            now = self._context.clock.now()
            number = sequences.next_value(transaction, "department")
            department = Department(number, new.name, new.description, now, now, 1)
            departments.add(transaction, department)
            record_audit(self._context, transaction, actor, Action.DEPARTMENT_CREATE, new.name)
            return department

        return await self._context.store.write(idempotent(self._context, actor, once, Department, change))

    async def set_description(self, actor: Actor, name: str, description: str) -> Department:
        authorise(actor, Action.DEPARTMENT_UPDATE)

        def change(transaction: Transaction) -> Department:
            department = _get_department(transaction, name)
            now = self._context.clock.now()
            departments.update(transaction, structs.replace(department, description=description, updated_at=now))
            record_audit(self._context, transaction, actor, Action.DEPARTMENT_UPDATE, name)
            return _get_department(transaction, name)

        return await self._context.store.write(change)

    async def delete(self, actor: Actor, name: str) -> None:
        authorise(actor, Action.DEPARTMENT_DELETE)

        def change(transaction: Transaction) -> None:
            department = _get_department(transaction, name)
            if workspaces := departments.count_workspaces(transaction, department.id):
                message = f'Department "{name}" still has workspaces ({workspaces}). Move or delete them first.'
                raise StokerError(ErrorCode.CONFLICT, message)
            departments.delete(transaction, department.id)
            record_audit(self._context, transaction, actor, Action.DEPARTMENT_DELETE, name)

        await self._context.store.write(change)


def _get_department(transaction: Transaction, name: str) -> Department:
    department = departments.find(transaction, name)
    if department is None:
        raise not_found("department", name)
    return department
