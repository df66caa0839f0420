// Package storageversionmigrator is the storage-version-migrator-controller: it has the API server write all objects of
// a resource anew, in the version and with the encryption in which it stores the resource now.
//
// A program passes what storageversionmigrator.New(storageversionmigrator.Options{}) returns to manager.New. For
// users, docs/storageversionmigrator.md says what the controller does.
//
// A key is a StorageVersionMigration, or a CustomResourceDefinition that may say that it is being migrated, though its
// migration was deleted. Observe reads one page of the metadata of the resource live, and keeps of
// each object its name, uid and version. Plan touches what is as old as the migration, see [plan.Touch]. Report writes
// into the status how far the migration has come, and where it goes on. So another process finds all that it needs
// to go on in the migration itself. The memory has only which objects of a page are done that has failed in part.
package storageversionmigrator
